/* The part of Open MPI's C interface that MLX loads from the library in MLX_MPI_LIBNAME. Handles
 * are addresses of objects, as in Open MPI, but are never dereferenced: a wrong one is an error,
 * not a crash.
 *
 * On errors these functions throw std::runtime_error (except MPI_Comm_free and MPI_Finalize, which
 * destructors call), because MLX ignores return codes. A C program terminates with the message.
 *
 * Owner: free a communicator from MPI_Comm_split with MPI_Comm_free; types and operators are
 * permanent. Thread: any. Memory: buffers are the caller's.
 */
#ifndef MLXCOMM_MPI_OPEN_MPI_H_
#define MLXCOMM_MPI_OPEN_MPI_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLXCOMM_MPI_API __attribute__((visibility("default")))

#define MPI_SUCCESS 0
#define MPI_ERR_COMM 5
#define MPI_ANY_SOURCE (-1)
#define MPI_ANY_TAG (-1)
#define MPI_UNDEFINED (-32766)
#define MPI_IN_PLACE ((void*)1)
#define MPI_MAX_LIBRARY_VERSION_STRING 256

typedef void* MPI_Comm;
typedef void* MPI_Datatype;
typedef void* MPI_Op;
typedef void(MPI_User_function)(void* in, void* in_and_out, int* count, MPI_Datatype* type);

/* Open MPI's names. NOLINTBEGIN(readability-identifier-naming) */
typedef struct ompi_status_public_t {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int _cancelled;
  size_t _ucount; /* bytes received */
} MPI_Status;
/* NOLINTEND(readability-identifier-naming) */

/* A handle's object: a name for debuggers. */
typedef struct mlxcomm_mpi_object {
  const char* name;
} mlxcomm_mpi_object;

extern MLXCOMM_MPI_API mlxcomm_mpi_object ompi_mpi_comm_world;
extern MLXCOMM_MPI_API mlxcomm_mpi_object ompi_mpi_op_sum, ompi_mpi_op_max, ompi_mpi_op_min;
extern MLXCOMM_MPI_API mlxcomm_mpi_object ompi_mpi_c_bool, ompi_mpi_int8_t, ompi_mpi_uint8_t,
    ompi_mpi_int16_t, ompi_mpi_uint16_t, ompi_mpi_int32_t, ompi_mpi_uint32_t, ompi_mpi_int64_t,
    ompi_mpi_uint64_t, ompi_mpi_float, ompi_mpi_double, ompi_mpi_c_complex;

MLXCOMM_MPI_API int MPI_Get_library_version(char* version, int* length);
MLXCOMM_MPI_API int MPI_Init(int* argc, char*** argv);
MLXCOMM_MPI_API int MPI_Finalize(void);
MLXCOMM_MPI_API int MPI_Comm_rank(MPI_Comm comm, int* rank);
MLXCOMM_MPI_API int MPI_Comm_size(MPI_Comm comm, int* size);
/* A negative color gives a communicator of this rank alone. */
MLXCOMM_MPI_API int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part);
MLXCOMM_MPI_API int MPI_Comm_free(MPI_Comm* comm);
MLXCOMM_MPI_API int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type,
                                  MPI_Op op, MPI_Comm comm);
MLXCOMM_MPI_API int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type,
                                  void* receive, int receive_count, MPI_Datatype receive_type,
                                  MPI_Comm comm);
/* Only tag 0; MPI_Recv also accepts MPI_ANY_TAG. */
MLXCOMM_MPI_API int MPI_Send(const void* data, int count, MPI_Datatype type, int destination,
                             int tag, MPI_Comm comm);
MLXCOMM_MPI_API int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag,
                             MPI_Comm comm, MPI_Status* status);
/* Only two uint8_t: the first call gives float16, the second bfloat16. */
MLXCOMM_MPI_API int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype* type);
MLXCOMM_MPI_API int MPI_Type_commit(MPI_Datatype* type);
MLXCOMM_MPI_API int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLXCOMM_MPI_OPEN_MPI_H_ */
