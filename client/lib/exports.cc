// libmlxcomm is made of the static library; a shared one needs a source of its own.
#include "client/lib/mlxcomm.h"
