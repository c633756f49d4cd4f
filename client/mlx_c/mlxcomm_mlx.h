/* mlxcomm for programs of mlx-c: groups whose operations run in a daemon.
 *
 * A group is an mlx_distributed_group: every mlx_distributed_* function of mlx-c accepts it, and
 * mlx_distributed_group_free frees it. This header declares what mlx-c does not have.
 *
 *   mlx_distributed_group world = mlx_distributed_group_new();
 *   mlxcomm_mlx_init(&world, true, NULL);
 *   mlx_distributed_all_sum(&sum, x, world, stream);
 *
 * Owner: handles are the caller's; the process's world is kept until the process ends. Thread: any;
 * threads may share groups. Memory: results are in memory shared with the daemon. A forked child
 * cannot use any of this: start children with exec.
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

/* As in mlx-c, the result comes first: 0-initialized, or an object to replace. Functions return 0,
 * or 1 after calling the error handler (mlx_set_error_handler); then the result is unchanged.
 *
 * Arguments of all operations:
 *   group       from mlxcomm_mlx_init or a split. Empty (ctx NULL) means the process's default
 *               group: the first of more than one rank that it has joined, otherwise that of
 *               mlxcomm_mlx_init. (For mlx-c's functions an empty group is one of MLX's own
 *               backends.) In a group of one rank the result is the input.
 *   timeout_ns  nanoseconds until DEADLINE_EXCEEDED; 0: the group's (mlxcomm_mlx_set_timeout),
 *               which by default waits as long as the missing ranks may still call
 *   s           a CPU stream of this thread; empty: its default. Operations on one stream run in
 *               order.
 *
 * Operations are lazy. Arguments and shapes are checked immediately (INVALID_ARGUMENT); errors
 * between ranks come from the evaluation (mlx_array_eval, mlx_eval). All ranks of a group must run
 * its operations in the same order; MLX evaluates in graph order.
 *
 * exit() waits for operations in progress, because other ranks still need them (until none has
 * ended for MLXCOMM_END_TIMEOUT seconds, 60), and then leaves the jobs; groups need not be freed.
 */

/* --- joining ---------------------------------------------------------------------------------- */

/* Joins this process's job; replaces mlx_distributed_init. The launcher's variables give rank, size
 * and job (mlxcomm_find_place: mlxcommctl launch, mlx.launch, torchrun, Open MPI, PMI, Slurm).
 * Waits until all ranks have joined. A second call gives the same group, or joins again if the
 * daemon died or stopped.
 *
 * strict: UNAVAILABLE without a launcher; otherwise that gives a group of one rank, without a
 * daemon.
 *
 * backend: "any", "ring", "jaccl", "mpi", "nccl" and "mlxcomm" all mean this group; other names are
 * INVALID_ARGUMENT. */
MLXCOMM_MLX_API int mlxcomm_mlx_init(mlx_distributed_group* res, bool strict,
                                     const char* backend /* may be null */);
/* Returns whether mlxcomm_mlx_init accepts the name; replaces mlx_distributed_is_available. */
MLXCOMM_MLX_API bool mlxcomm_mlx_is_available(const char* backend /* may be null */);

typedef struct mlxcomm_mlx_join_options {
  size_t struct_size;      /* sizeof(mlxcomm_mlx_join_options) */
  const char* job;         /* 1 to 200 bytes of UTF-8; NULL: from the environment */
  int64_t rank;            /* -1: from the environment */
  int64_t size;            /* -1: from the environment */
  const char* socket_path; /* NULL: $MLXCOMM_SOCKET, else the service's, else a private daemon */
  uint64_t timeout_ns;     /* for the other ranks to join; 0: the daemon's (5 minutes) */
  uint64_t arena_bytes;    /* address space for buffers; 0: the maximum that the daemon allows */
} mlxcomm_mlx_join_options;

/* Fills in the defaults. */
MLXCOMM_MLX_API void mlxcomm_mlx_join_options_init(mlxcomm_mlx_join_options* options);
/* Like mlxcomm_mlx_init(res, false, NULL), with options. If the process has joined this place
 * before, it gets that group. */
MLXCOMM_MLX_API int mlxcomm_mlx_join(mlx_distributed_group* res,
                                     const mlxcomm_mlx_join_options* options /* may be null */);

/* Leaves the group's job because of an error: all other ranks get RANK_LOST at once, with `why`
 * ("no such layer"; at most 120 bytes), and calls of this process fail. exit() in an error handler
 * that one of these functions has called does this, with the handler's text. */
MLXCOMM_MLX_API int mlxcomm_mlx_leave(mlx_distributed_group group, const char* why);

/* --- groups ----------------------------------------------------------------------------------- */

/* Returns whether the group's operations use a daemon: not if it is empty, has one rank, or belongs
 * to one of MLX's own backends. */
MLXCOMM_MLX_API bool mlxcomm_mlx_is_ours(mlx_distributed_group group);

/* Makes a new group of all ranks of `group` with the same color. Every rank of `group` must call
 * it; it returns when all have. mlx_distributed_group_split does the same, without name and
 * timeout.
 *
 * color: 0 or more; MLXCOMM_NO_GROUP (-1) if this rank does not take part: it gets an empty group.
 *
 * key: sorts the ranks of the new group, then the old rank does; negative: the old rank.
 *
 * name: 1 to 100 bytes of UTF-8 for mlxcommctl status and errors; NULL: the color. */
MLXCOMM_MLX_API int mlxcomm_mlx_split(mlx_distributed_group* res, mlx_distributed_group group,
                                      int color, int key, const char* name /* may be null */,
                                      uint64_t timeout_ns);
/* Makes a new group of the remaining ranks after a failure, in the old order; all of them must call
 * it. If a world has shrunk, mlxcomm_mlx_init gives the new group. INVALID_ARGUMENT: the group has
 * not failed. DEADLINE_EXCEEDED names the ranks that did not call it. `res` may be the failed
 * group. */
MLXCOMM_MLX_API int mlxcomm_mlx_shrink(mlx_distributed_group* res, mlx_distributed_group group,
                                       uint64_t timeout_ns);
/* Waits until every rank has called it; not lazy. */
MLXCOMM_MLX_API int mlxcomm_mlx_barrier(mlx_distributed_group group, uint64_t timeout_ns);
/* Sets the default timeout of this rank's later operations on the group, and of groups split off
 * later. 0: the daemon's default. */
MLXCOMM_MLX_API int mlxcomm_mlx_set_timeout(mlx_distributed_group group, uint64_t timeout_ns);
/* Reports the group's failure again, if an operation of this rank has failed. Asks no other
 * process. */
MLXCOMM_MLX_API int mlxcomm_mlx_check(mlx_distributed_group group);
/* "train", "train/rows", as in mlxcommctl status; "alone" for one rank. Free it with
 * mlx_string_free. */
MLXCOMM_MLX_API int mlxcomm_mlx_name(mlx_string* res, mlx_distributed_group group);

/* --- operations ------------------------------------------------------------------------------- */

/* Rows are slices along the leading axis; `size` is the group's. All dtypes of MLX; operators as in
 * mlxcomm.h. x has the same shape and dtype on all ranks unless stated otherwise. Gradients are
 * true adjoints, operations that every rank must evaluate; those of all_reduce and all_gather(_v)
 * follow MLX: a loss that each rank computes from the result counts once. */

/* One operation on an array. The kind ignores fields that it does not use. */
typedef struct mlxcomm_mlx_request {
  size_t struct_size; /* sizeof(mlxcomm_mlx_request) */
  mlxcomm_kind kind;
  mlxcomm_operator op;
  int peer; /* root, destination or source */
  uint32_t tag;
  const uint64_t* counts;         /* all_to_all_v: send_counts */
  const uint64_t* receive_counts; /* may be null */
  size_t counts_num;
  mlx_distributed_group group;
  uint64_t timeout_ns;
  mlx_stream s;
} mlxcomm_mlx_request;
/* Any operation except a barrier. The functions below fill in a request; use it directly if the
 * kind is known only at run time, or from a language without C's inline functions. */
MLXCOMM_MLX_API int mlxcomm_mlx_operate(mlx_array* res, mlx_array x,
                                        const mlxcomm_mlx_request* request);

/* Returns a request with the common fields. */
MLXCOMM_INLINE mlxcomm_mlx_request mlxcomm_mlx_request_of(mlxcomm_kind kind,
                                                          mlx_distributed_group group,
                                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request = {
      sizeof(mlxcomm_mlx_request), kind, MLXCOMM_SUM, 0, 0, NULL, NULL, 0, group, timeout_ns, s};
  return request;
}

/* Combines x over all ranks; every rank gets the result, of x's shape. */
MLXCOMM_INLINE int mlxcomm_mlx_all_reduce(mlx_array* res, mlx_array x, mlxcomm_operator op,
                                          mlx_distributed_group group, uint64_t timeout_ns,
                                          mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_ALL_REDUCE, group, timeout_ns, s);
  request.op = op;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* all_reduce of many arrays. Arrays of one dtype are packed into one operation for each
 * `bucket_bytes` (0: into one), so inputs may be combined in another order. Results may share
 * memory. */
MLXCOMM_MLX_API int mlxcomm_mlx_all_reduce_many(mlx_vector_array* res, mlx_vector_array xs,
                                                mlxcomm_operator op, size_t bucket_bytes,
                                                mlx_distributed_group group, uint64_t timeout_ns,
                                                mlx_stream s);
/* Like all_reduce, but only `root` gets the result; zeros of x's shape elsewhere. */
MLXCOMM_INLINE int mlxcomm_mlx_reduce(mlx_array* res, mlx_array x, int root, mlxcomm_operator op,
                                      mlx_distributed_group group, uint64_t timeout_ns,
                                      mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_REDUCE, group, timeout_ns, s);
  request.op = op;
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...). Rank r gets block r of the combined x: (n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_reduce_scatter(mlx_array* res, mlx_array x, mlxcomm_operator op,
                                              mlx_distributed_group group, uint64_t timeout_ns,
                                              mlx_stream s) {
  mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_REDUCE_SCATTER, group, timeout_ns, s);
  request.op = op;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* Sends the root's x to every rank; x is read only on the root. */
MLXCOMM_INLINE int mlxcomm_mlx_broadcast(mlx_array* res, mlx_array x, int root,
                                         mlx_distributed_group group, uint64_t timeout_ns,
                                         mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_BROADCAST, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (n, ...); a scalar counts as one row. Concatenates all x: (size * n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_all_gather(mlx_array* res, mlx_array x, mlx_distributed_group group,
                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_ALL_GATHER, group, timeout_ns, s);
  return mlxcomm_mlx_operate(res, x, &request);
}
/* The same with a different number of rows on each rank: counts[rank] in x. counts has `counts_num`
 * = size entries, the same on all ranks; NULL (and 0) first gathers and evaluates them. */
MLXCOMM_INLINE int mlxcomm_mlx_all_gather_v(mlx_array* res, mlx_array x,
                                            const uint64_t* counts /* may be null */,
                                            size_t counts_num, mlx_distributed_group group,
                                            uint64_t timeout_ns, mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_ALL_GATHER_V, group, timeout_ns, s);
  request.counts = counts;
  request.counts_num = counts_num;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* Like all_gather, but only `root` gets the result; (0, ...) elsewhere. */
MLXCOMM_INLINE int mlxcomm_mlx_gather(mlx_array* res, mlx_array x, int root,
                                      mlx_distributed_group group, uint64_t timeout_ns,
                                      mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_GATHER, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...), read only on the root. Rank r gets block r: (n, ...). */
MLXCOMM_INLINE int mlxcomm_mlx_scatter(mlx_array* res, mlx_array x, int root,
                                       mlx_distributed_group group, uint64_t timeout_ns,
                                       mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_SCATTER, group, timeout_ns, s);
  request.peer = root;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* x: (size * n, ...). Block r goes to rank r; block r of the result, which has x's shape, comes
 * from rank r.
 * */
MLXCOMM_INLINE int mlxcomm_mlx_all_to_all(mlx_array* res, mlx_array x, mlx_distributed_group group,
                                          uint64_t timeout_ns, mlx_stream s) {
  const mlxcomm_mlx_request request =
      mlxcomm_mlx_request_of(MLXCOMM_ALL_TO_ALL, group, timeout_ns, s);
  return mlxcomm_mlx_operate(res, x, &request);
}
/* The same with different numbers of rows: send_counts[r] rows of x go to rank r, receive_counts[r]
 * rows of the result come from it, in order of rank; both have `counts_num` = size entries.
 * MISMATCH: a rank sends a number of rows that its receiver does not expect. receive_counts NULL
 * first exchanges and evaluates them.
 * */
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
/* Sends x to another rank when the result, which equals x, is evaluated. The n-th send to a rank
 * with a tag matches the n-th recv there with that tag. */
MLXCOMM_INLINE int mlxcomm_mlx_send(mlx_array* res, mlx_array x, int dst, uint32_t tag,
                                    mlx_distributed_group group, uint64_t timeout_ns,
                                    mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_SEND, group, timeout_ns, s);
  request.peer = dst;
  request.tag = tag;
  return mlxcomm_mlx_operate(res, x, &request);
}
/* Receives an array of this shape and dtype from `src`. `after` is evaluated first and not read;
 * the source gets a gradient only if it is given, because gradients flow only to inputs. */
MLXCOMM_MLX_API int mlxcomm_mlx_recv(mlx_array* res, const int* shape, size_t shape_num,
                                     mlx_dtype dtype, int src, uint32_t tag,
                                     mlx_array after /* may be null */, mlx_distributed_group group,
                                     uint64_t timeout_ns, mlx_stream s);
/* recv with x's shape and dtype, and x as `after`. */
MLXCOMM_INLINE int mlxcomm_mlx_recv_like(mlx_array* res, mlx_array x, int src, uint32_t tag,
                                         mlx_distributed_group group, uint64_t timeout_ns,
                                         mlx_stream s) {
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_RECV, group, timeout_ns, s);
  request.peer = src;
  request.tag = tag;
  return mlxcomm_mlx_operate(res, x, &request);
}

/* --- errors ----------------------------------------------------------------------------------- */

typedef struct mlxcomm_mlx_error {
  mlxcomm_code code; /* MLXCOMM_OK: none */
  int32_t rank;      /* the failed rank; -1 if unknown */
  uint64_t pid;      /* its process; 0 if unknown */
  char node[256];    /* its node; "" if unknown. All texts are NUL-terminated UTF-8 */
  char group[512];   /* "train/rows"; "" if the failure was before joining */
  char message[1024];
} mlxcomm_mlx_error;

/* Gets the last error of a function of this header on this thread (MLXCOMM_OK: none). */
MLXCOMM_MLX_API void mlxcomm_mlx_last_error(mlxcomm_mlx_error* res);
/* Gets the details of a failed operation from the text that mlx_array_eval and others pass to the
 * error handler: one of the last 64 failures of this process. Returns 1 if there is none; never
 * calls the error handler. */
MLXCOMM_MLX_API int mlxcomm_mlx_find_error(mlxcomm_mlx_error* res, const char* text);

/* Counts for this process so far. */
typedef struct mlxcomm_mlx_counts {
  uint64_t operations;
  uint64_t inputs_copied;   /* into the memory shared with the daemon */
  uint64_t inputs_in_arena; /* results of operations, which need no copy */
  uint64_t results_copied;  /* because MLX does not accept that memory (client/python, "Memory") */
} mlxcomm_mlx_counts;
MLXCOMM_MLX_API void mlxcomm_mlx_get_counts(mlxcomm_mlx_counts* res);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLXCOMM_MLX_H_ */
