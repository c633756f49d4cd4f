/* What a program built with an MPI header passes to the library: the same by Open MPI's mpi.h
 * and by client/mpi/open_mpi.h. test_mpi_shim.py compiles it with each (-include). */
#include <stddef.h>
#include <stdio.h>

int main(void) {
  printf("handles %zu %zu %zu\n", sizeof(MPI_Comm), sizeof(MPI_Datatype), sizeof(MPI_Op));
  printf("status %zu: %zu %zu %zu %zu\n", sizeof(MPI_Status), offsetof(MPI_Status, MPI_SOURCE),
         offsetof(MPI_Status, MPI_TAG), offsetof(MPI_Status, MPI_ERROR),
         offsetof(MPI_Status, _ucount));
  printf("in place %p\n", MPI_IN_PLACE);
  printf("wildcards %d %d, undefined %d\n", MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_UNDEFINED);
  printf("errors %d %d, version of %d bytes\n", MPI_SUCCESS, MPI_ERR_COMM,
         MPI_MAX_LIBRARY_VERSION_STRING);
  return 0;
}
