// What macOS's unistd.h declares in addition.
#pragma once
#include_next <unistd.h>

#define _CS_DARWIN_USER_CACHE_DIR 65538
extern "C" int getpeereid(int socket, uid_t* uid, gid_t* gid);
