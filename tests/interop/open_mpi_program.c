/* A program in C that is linked with libmlxcomm_mpi, as one rank of two: the calls that MLX
 * makes. With an argument it makes a mistake, which ends a program that catches nothing, with the
 * message: as with Open MPI. */
#include <stdio.h>
#include <string.h>

#include "client/mpi/open_mpi.h"

#define CHECK(condition)                                   \
  if (!(condition)) {                                      \
    printf("line %d: not so: %s\n", __LINE__, #condition); \
    return 1;                                              \
  }

static void SumOfSquares(void* in, void* in_and_out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) {
    ((double*)in_and_out)[i] += ((double*)in)[i] * ((double*)in)[i];
  }
}

int main(int argc, char** argv) {
  MPI_Comm world = &ompi_mpi_comm_world;
  MPI_Comm part;
  MPI_Op squares;
  MPI_Status status;
  int rank = -1;
  int size = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  CHECK(size == 2);
  if (argc > 1) return MPI_Send(&rank, 1, &ompi_mpi_int32_t, 2, 0, world);

  int numbers[2] = {rank, 10 + rank};
  MPI_Allreduce(MPI_IN_PLACE, numbers, 2, &ompi_mpi_int32_t, &ompi_mpi_op_sum, world);
  CHECK(numbers[0] == 1 && numbers[1] == 21);

  int all[2] = {-1, -1};
  all[rank] = rank + 5;
  MPI_Allgather(MPI_IN_PLACE, 0, NULL, all, 1, &ompi_mpi_int32_t, world);
  CHECK(all[0] == 5 && all[1] == 6);

  /* The function is applied in order of rank: 3 + 4 * 4 on both. */
  double square = 3 + rank;
  double result = 0;
  MPI_Op_create(SumOfSquares, 0, &squares);
  MPI_Allreduce(&square, &result, 1, &ompi_mpi_double, squares, world);
  CHECK(result == 19 && square == 3 + rank);

  if (rank == 0) {
    MPI_Send(numbers, 2, &ompi_mpi_int32_t, 1, 0, world);
  } else {
    memset(numbers, 0, sizeof numbers);
    MPI_Recv(numbers, 2, &ompi_mpi_int32_t, 0, MPI_ANY_TAG, world, &status);
    CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 0 && status._ucount == sizeof numbers);
    CHECK(numbers[0] == 1 && numbers[1] == 21);
  }

  MPI_Comm_split(world, 0, -rank, &part);
  MPI_Comm_rank(part, &size);
  CHECK(size == 1 - rank);
  CHECK(MPI_Comm_free(&part) == MPI_SUCCESS && part == NULL);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  printf("all is right\n");
  return 0;
}
