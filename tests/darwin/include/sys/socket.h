// macOS's sockets; Linux's own options replace some of theirs (sockets.cc).
#pragma once
#include_next <sys/socket.h>

#undef MSG_NOSIGNAL
#undef MSG_CMSG_CLOEXEC
#undef SOCK_CLOEXEC
#define SO_NOSIGPIPE 0x1022
