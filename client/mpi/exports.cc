// libmlxcomm_mpi is made of the static library; a shared one needs a source of its own.
#include "client/mpi/open_mpi.h"
