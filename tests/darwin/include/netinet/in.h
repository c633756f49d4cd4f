// macOS's IPv6 options.
#pragma once
#include_next <netinet/in.h>

#define IPV6_BOUND_IF 125
