// The part of kqueue(2) that the project uses.
#pragma once

#include <stdint.h>
#include <time.h>

#define EVFILT_PROC (-5)
#define EV_ADD 0x0001
#define EV_DELETE 0x0002
#define EV_ONESHOT 0x0010
#define NOTE_EXIT 0x80000000U

struct kevent {
  uintptr_t ident;
  int16_t filter;
  uint16_t flags;
  uint32_t fflags;
  intptr_t data;
  void* udata;
};

#define EV_SET(to, a, b, c, d, e, f) (*(to) = {(a), (b), (c), (d), (e), (f)})

extern "C" int kqueue();
extern "C" int kevent(int queue, const struct kevent* changes, int change_count,
                      struct kevent* events, int event_count, const timespec* timeout);
