/* mlxcomm for programs of mlx-c: groups whose operations are carried out by a daemon.
 *
 * A group of this header is a mlx_distributed_group: every mlx_distributed_* function of mlx-c takes it, and
 * mlx_distributed_group_free frees it. This header declares what mlx-c does not have.
 *
 *   mlx_distributed_group world = mlx_distributed_group_new();
 *   mlxcomm_mlx_init(&world, true, NULL);
 *   mlx_distributed_all_sum(&sum, x, world, stream);
 *
 * Owner: handles are the caller's; a process's world is also kept until the process ends. Thread: any, and
 * groups are shared among them. Memory: results lie in memory that is shared with the daemon. A forked child
 * cannot use any of it: start children by exec.
 */
#ifndef MLXCOMM_MLX_H_
#define MLXCOMM_MLX_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/mlxcomm.h"
#include "mlx/c/array.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/stream.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#if defined(MLXCOMM_MLX_BUILDING)
#define MLXCOMM_MLX_API __attribute__((visibility("default")))
#else
#define MLXCOMM_MLX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As in mlx-c the result comes first and is 0-initialized or an object that is replaced; 0 is returned, or 1
 * after the error handler (mlx_set_error_handler) was called, and then the result is unchanged.
 * mlxcomm_mlx_last_error tells more of an error than its text.
 *
 * Arguments of all operations:
 *   group       one of mlxcomm_mlx_init or split off it. Empty (ctx NULL) means the process's default group:
 *               the first of more than one rank that it has joined, else what mlxcomm_mlx_init gives. In a
 *               group of one rank results are the input. The functions of mlx-c know nothing of this default:
 *               to them an empty group is one of MLX's own backends.
 *   timeout_ns  nanoseconds until DEADLINE_EXCEEDED; 0: the group's (mlxcomm_mlx_set_timeout), which by
 *               default lasts as long as an awaited rank may still come
 *   s           a CPU stream of this thread; empty: its default one. Operations on one stream wait for each
 *               other.
 *
 * Operations are lazy, as all of MLX. Arguments and shapes are checked at once (INVALID_ARGUMENT); what goes
 * wrong between ranks comes from the evaluation (mlx_array_eval, mlx_eval). The ranks of a group carry out
 * its operations in the same order; MLX evaluates in the order that its graph asks for.
 *
 * exit() first lets operations end that have begun, for other ranks still need them (MLXCOMM_END_TIMEOUT, 60
 * seconds in which none of them ends), and then leaves in order; groups need not be freed.
 */

/* --- joining ------------------------------------------------------------------------------------------ */

/* The group of this process's job, in place of mlx_distributed_init and with its arguments. The
 * launcher's variables say which rank of which job this is (mlxcomm_find_place: mlxcommctl
 * launch, mlx.launch, torchrun, Open MPI, PMI, Slurm); waits until all ranks are there. A second
 * call gives the same group, or a new one if the daemon was lost or has stopped.
 *
 * strict: UNAVAILABLE without a launcher; else a group of one rank, without a daemon.
 *
 * backend: may be NULL; "any", "ring", "jaccl", "mpi", "nccl" and "mlxcomm" all mean this group.
 * Another name is INVALID_ARGUMENT. */
MLXCOMM_MLX_API int mlxcomm_mlx_init(mlx_distributed_group* res, bool strict,
                                     const char* backend /* may be null */);
/* Whether mlxcomm_mlx_init accepts the name; NULL: true. In place of
 * mlx_distributed_is_available. */
MLXCOMM_MLX_API bool mlxcomm_mlx_is_available(const char* backend /* may be null */);

typedef struct mlxcomm_mlx_join_options {
  size_t struct_size; /* sizeof(mlxcomm_mlx_join_options) */
  const char* job;    /* NULL: by the environment, as mlxcomm_mlx_init; 1 to 200 bytes of UTF-8 */
  int64_t rank;       /* -1: by the environment */
  int64_t size;       /* -1: by the environment */
  const char* socket_path; /* NULL: $MLXCOMM_SOCKET, else the service's, else a private daemon */
  uint64_t timeout_ns;     /* for the other ranks to come; 0: the daemon's (5 minutes) */
  uint64_t arena_bytes; /* address space for buffers; 0: as much as the daemon allows, the most */
} mlxcomm_mlx_join_options;

/* Fills in the defaults. */
MLXCOMM_MLX_API void mlxcomm_mlx_join_options_init(mlxcomm_mlx_join_options* options);
/* As mlxcomm_mlx_init(res, false, NULL), with these options; NULL: the defaults. A process that
 * has joined that rank of that job before gets that group. */
MLXCOMM_MLX_API int mlxcomm_mlx_join(mlx_distributed_group* res,
                                     const mlxcomm_mlx_join_options* options /* may be null */);

/* Leaves the group's job because this program ends by a fault: all other ranks get RANK_LOST at
 * once, with `why` ("no such layer"; at most 120 bytes), and calls of this process end with an
 * error. exit() in an error handler that one of these functions has called does this by itself,
 * with the handler's text. */
MLXCOMM_MLX_API int mlxcomm_mlx_leave(mlx_distributed_group group, const char* why);

/* --- groups ------------------------------------------------------------------------------------------- */

/* Whether the group's operations go through a daemon: false for an empty group, for one rank,
 * and for MLX's own backends. */
MLXCOMM_MLX_API bool mlxcomm_mlx_is_ours(mlx_distributed_group group);

/* A new group of all ranks of `group` that name the same color; every rank of `group` calls it,
 * and it returns when all have. mlx_distributed_group_split does the same, without name and
 * timeout.
 *
 * color: 0 or more, or MLXCOMM_NO_GROUP (-1) for a rank that takes no part: it gets an empty
 * group, in which it must not communicate.
 *
 * key: the new group's ranks are in order of it, then of the old rank; negative: the old rank.
 *
 * name: may be NULL (the color); 1 to 100 bytes of UTF-8; mlxcommctl status and errors show it. */
MLXCOMM_MLX_API int mlxcomm_mlx_split(mlx_distributed_group* res, mlx_distributed_group group,
                                      int color, int key, const char* name /* may be null */,
                                      uint64_t timeout_ns);
/* After a failure: a new group of the ranks that are left, in the old order; every one of them
 * calls it. After a world has shrunk, mlxcomm_mlx_init gives the new group. INVALID_ARGUMENT:
 * the group has not failed. DEADLINE_EXCEEDED names the ranks that did not call. `res` may hold
 * the failed group. */
MLXCOMM_MLX_API int mlxcomm_mlx_shrink(mlx_distributed_group* res, mlx_distributed_group group,
                                       uint64_t timeout_ns);
/* Returns when every rank has called it: at once, not lazily. */
MLXCOMM_MLX_API int mlxcomm_mlx_barrier(mlx_distributed_group group, uint64_t timeout_ns);
/* The deadline of this rank's later operations on the group that name none, and of groups split off
 * afterwards. 0: the daemon's default. */
MLXCOMM_MLX_API int mlxcomm_mlx_set_timeout(mlx_distributed_group group, uint64_t timeout_ns);
/* The group's failure again, if an operation of this rank has met one; else 0. Asks no other
 * process. */
MLXCOMM_MLX_API int mlxcomm_mlx_check(mlx_distributed_group group);
/* "train", "train/rows", as in mlxcommctl status; "alone" for one rank. Free it by
 * mlx_string_free. */
MLXCOMM_MLX_API int mlxcomm_mlx_name(mlx_string* res, mlx_distributed_group group);

/* --- operations --------------------------------------------------------------------------------------- */

/* Shapes: n rows are n slices along the leading axis; `size` is the group's. Every dtype of MLX;
 * operators as in mlxcomm.h. x has the same shape and dtype on all ranks unless stated
 * otherwise. Gradients are true adjoints, operations themselves, which every rank evaluates; but
 * those of all_reduce and all_gather(_v) follow MLX, where each rank has the loss for itself. */

/* One operation on an array. Fields that the kind does not use are ignored: zero is fine. */
typedef struct mlxcomm_mlx_request {
  size_t struct_size; /* sizeof(mlxcomm_mlx_request) */
  mlxcomm_kind kind;
  mlxcomm_operator op;
  int peer; /* root, destination or source */
  uint32_t tag;
  const uint64_t* counts;         /* of all_to_all_v: send_counts */
  const uint64_t* receive_counts; /* may be null */
  size_t counts_num;
  mlx_distributed_group group;
  uint64_t timeout_ns;
  mlx_stream s;
} mlxcomm_mlx_request;
/* Any operation but a barrier. The functions below fill in a request for it; a program that learns
 * the kind while it runs, or a language without C's inline functions, does so itself. */
MLXCOMM_MLX_API int mlxcomm_mlx_operate(mlx_array* res, mlx_array x,
                                        const mlxcomm_mlx_request* request);

/* A request with the fields that all kinds have; the caller adds the others. */
MLXCOMM_INLINE mlxcomm_mlx_request mlxcomm_mlx_request_of(mlxcomm_kind kind,
                                                          mlx_distributed_group group,
                                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request = {
      sizeof(mlxcomm_mlx_request), kind, MLXCOMM_SUM, 0, 0, NULL, NULL, 0, group, timeout_ns, s};
  return request;
}

/* The x of all ranks combined, on every rank; x's shape. */
MLXCOMM_INLINE int mlxcomm_mlx_all_reduce(mlx_array* res, mlx_array x, mlxcomm_operator op,
                                          mlx_distributed_group group, uint64_t timeout_ns,
                                          mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_ALL_REDUCE, group, timeout_ns, s);
  request.op = op;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* For many arrays, each as with all_reduce except for the order in which its inputs are
 * combined: those of one dtype are packed together and are one operation, or one for each
 * `bucket_bytes` of them (0: for all). Results may share memory. An empty vector has an empty
 * result. */
MLXCOMM_MLX_API int mlxcomm_mlx_all_reduce_many(mlx_vector_array* res, mlx_vector_array xs,
                                                mlxcomm_operator op, size_t bucket_bytes,
                                                mlx_distributed_group group, uint64_t timeout_ns,
                                                mlx_stream s);
/* The same at rank `root`; zeros of x's shape elsewhere. */
MLXCOMM_INLINE int mlxcomm_mlx_reduce(mlx_array* res, mlx_array x, int root, mlxcomm_operator op,
                                      mlx_distributed_group group, uint64_t timeout_ns,
                                      mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_REDUCE, group, timeout_ns, s);
  request.op = op;
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...). Rank r gets block r of what all_reduce gives: (n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_reduce_scatter(mlx_array* res, mlx_array x, mlxcomm_operator op,
                                              mlx_distributed_group group, uint64_t timeout_ns,
                                              mlx_stream s) {
  mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_REDUCE_SCATTER, group, timeout_ns, s);
  request.op = op;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* The root's x on every rank; read there alone. */
MLXCOMM_INLINE int mlxcomm_mlx_broadcast(mlx_array* res, mlx_array x, int root,
                                         mlx_distributed_group group, uint64_t timeout_ns,
                                         mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_BROADCAST, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (n, ...); a scalar counts as one row. All x one after the other: (size * n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_all_gather(mlx_array* res, mlx_array x, mlx_distributed_group group,
                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_ALL_GATHER, group, timeout_ns, s);
  return mlxcomm_mlx_operate(res, x, &request);
}
/* The same with a different number of rows on each rank. counts: one for each of `counts_num` =
 * size ranks, the same on all; x has counts[rank] rows, the result their sum. NULL (and 0) asks
 * the other ranks first, which evaluates. */
MLXCOMM_INLINE int mlxcomm_mlx_all_gather_v(mlx_array* res, mlx_array x,
                                            const uint64_t* counts /* may be null */,
                                            size_t counts_num, mlx_distributed_group group,
                                            uint64_t timeout_ns, mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_ALL_GATHER_V, group, timeout_ns, s);
  request.counts = counts;
  request.counts_num = counts_num;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* As all_gather, at rank `root`; no rows elsewhere: (0, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_gather(mlx_array* res, mlx_array x, int root,
                                      mlx_distributed_group group, uint64_t timeout_ns,
                                      mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_GATHER, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...), read at the root alone. Rank r gets block r of it: (n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_scatter(mlx_array* res, mlx_array x, int root,
                                       mlx_distributed_group group, uint64_t timeout_ns,
                                       mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_SCATTER, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...). Block r goes to rank r, and block r of the result comes from it; x's shape. */
MLXCOMM_INLINE int mlxcomm_mlx_all_to_all(mlx_array* res, mlx_array x, mlx_distributed_group group,
                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_ALL_TO_ALL, group, timeout_ns, s);
  return mlxcomm_mlx_operate(res, x, &request);
}
/* The same with a different number of rows for each: send_counts[r] rows go to rank r,
 * receive_counts[r] come from it, packed in order of rank; both have `counts_num` = size
 * entries. The rows of x are the sum of the first, those of the result the sum of the second.
 * MISMATCH: a rank sends another a number of rows that it does not expect. receive_counts NULL
 * asks the other ranks first, which evaluates. */
MLXCOMM_INLINE int mlxcomm_mlx_all_to_all_v(mlx_array* res, mlx_array x,
                                            const uint64_t* send_counts,
                                            const uint64_t* receive_counts /* may be null */,
                                            size_t counts_num, mlx_distributed_group group,
                                            uint64_t timeout_ns, mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_ALL_TO_ALL_V, group, timeout_ns, s);
  request.counts = send_counts;
  request.receive_counts = receive_counts;
  request.counts_num = counts_num;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* Sends x to another rank when the result, which equals x, is evaluated. The n-th send to a rank with a tag
 * meets the n-th recv there with that tag. */
MLXCOMM_INLINE int mlxcomm_mlx_send(mlx_array* res, mlx_array x, int dst, uint32_t tag,
                                    mlx_distributed_group group, uint64_t timeout_ns,
                                    mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_SEND, group, timeout_ns, s);
  request.peer = dst;
  request.tag = tag;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* What `src` sends, with this shape and dtype.
 *
 * after: may be empty; is evaluated before, and not read. Gradients flow only from results to
 * inputs, so the source gets a gradient only if an input is named here. */
MLXCOMM_MLX_API int mlxcomm_mlx_recv(mlx_array* res, const int* shape, size_t shape_num,
                                     mlx_dtype dtype, int src, uint32_t tag,
                                     mlx_array after /* may be null */, mlx_distributed_group group,
                                     uint64_t timeout_ns, mlx_stream s);
/* recv with x's shape and dtype, after x. */
MLXCOMM_INLINE int mlxcomm_mlx_recv_like(mlx_array* res, mlx_array x, int src, uint32_t tag,
                                         mlx_distributed_group group, uint64_t timeout_ns,
                                         mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_RECV, group, timeout_ns, s);
  request.peer = src;
  request.tag = tag;
  return mlxcomm_mlx_operate(res, x, &request);
}

/* --- errors ------------------------------------------------------------------------------------------- */

typedef struct mlxcomm_mlx_error {
  mlxcomm_code code; /* MLXCOMM_OK: none */
  int32_t rank;      /* the rank at fault, -1 where none can be named */
  uint64_t pid;      /* its process; 0 where it is not known */
  char node[256];  /* where that runs; "" where it is not known. All texts: NUL-terminated UTF-8 */
  char group[512]; /* "train/rows"; "" for a failure that came before there was a group */
  char message[1024];
} mlxcomm_mlx_error;

/* The last error that a function of this header has met on this thread: MLXCOMM_OK before the
 * first. For errors of mlx-c's functions: mlxcomm_mlx_find_error. */
MLXCOMM_MLX_API void mlxcomm_mlx_last_error(mlxcomm_mlx_error* res);
/* The failure of an operation whose text is a part of `text`, which the error handler also gets
 * from mlx_array_eval and others: one of the last 64 of this process. 0, or 1 where there is
 * none; does not call the error handler. */
MLXCOMM_MLX_API int mlxcomm_mlx_find_error(mlxcomm_mlx_error* res, const char* text);

/* Counts for this process so far. */
typedef struct mlxcomm_mlx_counts {
  uint64_t operations;      /* carried out by the daemon */
  uint64_t inputs_copied;   /* into the memory that is shared with it */
  uint64_t inputs_in_arena; /* needed no copy, being results of operations */
  uint64_t
      results_copied; /* where MLX does not compute with that memory (client/python, "Copied results") */
} mlxcomm_mlx_counts;
MLXCOMM_MLX_API void mlxcomm_mlx_get_counts(mlxcomm_mlx_counts* res);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLXCOMM_MLX_H_ */
