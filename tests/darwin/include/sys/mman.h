// macOS's advice about memory.
#pragma once
#include_next <sys/mman.h>

#undef MADV_HUGEPAGE
#undef MADV_REMOVE
#undef MADV_WIPEONFORK
