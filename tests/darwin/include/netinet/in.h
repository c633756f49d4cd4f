// macOS's IPv6 options.
//
// Owner: none, declarations. Thread: any. Memory: none.
#pragma once
#include_next <netinet/in.h>

#define IPV6_BOUND_IF 125
