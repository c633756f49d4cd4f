/* mlxcomm: collectives between processes, carried out by a daemon.
 *
 * A process connects to the daemon of its machine (or starts one if none is running), joins a job
 * as one of its ranks, and submits operations on buffers in its arena, a shared-memory region. All
 * calls may be made from any thread.
 *
 * Every call that can fail returns a mlxcomm_code and, if `error` is not NULL, fills it. Every
 * wait has a deadline. A group that has failed stays failed: each later call on it returns the same
 * error at once.
 *
 * Do not cancel a thread that is in a call (pthread_cancel); mlxcomm_cancel, or the connection's
 * `interrupted`, ends a wait. After fork() the child must neither use the parent's objects nor
 * connect (the library's threads do not survive a fork); its calls fail with
 * MLXCOMM_INVALID_ARGUMENT. Start children with exec. */
#ifndef MLXCOMM_H_
#define MLXCOMM_H_

#include <stddef.h>
#include <stdint.h>

#if defined(MLXCOMM_BUILDING)
#define MLXCOMM_API __attribute__((visibility("default")))
#else
#define MLXCOMM_API
#endif
#ifdef __cplusplus
#define MLXCOMM_INLINE inline
#else
#define MLXCOMM_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MLXCOMM_VERSION_MAJOR 0
#define MLXCOMM_VERSION_MINOR 1
#define MLXCOMM_VERSION_PATCH 0

typedef enum mlxcomm_code {
  MLXCOMM_OK = 0,
  MLXCOMM_INVALID_ARGUMENT = 1,
  MLXCOMM_MISMATCH = 2,          /* ranks of a group made different calls */
  MLXCOMM_DEADLINE_EXCEEDED = 3, /* the message names the missing ranks */
  MLXCOMM_RANK_LOST = 4,         /* error.rank is the lost rank */
  MLXCOMM_DAEMON_LOST = 5,       /* buffers stay readable; connect again */
  MLXCOMM_DAEMON_STOPPING = 6,
  MLXCOMM_RESOURCE_EXHAUSTED = 7,
  MLXCOMM_CANCELLED = 8,
  MLXCOMM_ALREADY_EXISTS = 9,     /* the rank is taken */
  MLXCOMM_UNAVAILABLE = 10,       /* no daemon, or no link to a node */
  MLXCOMM_PERMISSION_DENIED = 11, /* user not served, or another user's daemon */
  MLXCOMM_INTERNAL = 12,
} mlxcomm_code;

typedef enum mlxcomm_data_type {
  MLXCOMM_FLOAT32 = 1,
  MLXCOMM_FLOAT16 = 2,
  MLXCOMM_BFLOAT16 = 3,
  MLXCOMM_INT32 = 4,
  MLXCOMM_BOOL = 5, /* one byte, 0 or 1 */
  MLXCOMM_INT8 = 6,
  MLXCOMM_INT16 = 7,
  MLXCOMM_INT64 = 8,
  MLXCOMM_UINT8 = 9,
  MLXCOMM_UINT16 = 10,
  MLXCOMM_UINT32 = 11,
  MLXCOMM_UINT64 = 12,
  MLXCOMM_FLOAT64 = 13,
  MLXCOMM_COMPLEX64 = 14, /* two float32: real, imaginary */
} mlxcomm_data_type;

/* min and max give NaN if any input is NaN. On bool, sum and max mean or; prod and min mean and.
 * Complex numbers are ordered by real part, then imaginary part. Integers wrap. Integers have no
 * mean, and floats and complex numbers have no and, or (INVALID_ARGUMENT). */
typedef enum mlxcomm_operator {
  MLXCOMM_SUM = 1,
  MLXCOMM_PROD = 2,
  MLXCOMM_MIN = 3,
  MLXCOMM_MAX = 4,
  MLXCOMM_AND = 5, /* bitwise for integers */
  MLXCOMM_OR = 6,
  MLXCOMM_MEAN = 7, /* the sum, divided by the group's size before it is rounded */
} mlxcomm_operator;

/* How data moves between the nodes of a group. The automatic choice uses the measured latency and
 * bandwidth of the links; force a plan only in tests and benchmarks. */
typedef enum mlxcomm_plan {
  MLXCOMM_PLAN_AUTOMATIC = 0,
  MLXCOMM_PLAN_RING = 1,
  MLXCOMM_PLAN_EXCHANGE = 2,
  MLXCOMM_PLAN_HALVING_DOUBLING = 3,
  MLXCOMM_PLAN_TREE = 4,
} mlxcomm_plan;

/* The operations; each is described at the function with its name. */
typedef enum mlxcomm_kind {
  MLXCOMM_ALL_REDUCE = 1,
  MLXCOMM_ALL_GATHER = 2,
  MLXCOMM_SEND = 3,
  MLXCOMM_RECV = 4,
  MLXCOMM_BARRIER = 5,
  MLXCOMM_REDUCE_SCATTER = 6,
  MLXCOMM_BROADCAST = 7,
  MLXCOMM_REDUCE = 8,
  MLXCOMM_ALL_TO_ALL = 9,
  MLXCOMM_GATHER = 10,
  MLXCOMM_SCATTER = 11,
  MLXCOMM_ALL_GATHER_V = 12,
  MLXCOMM_ALL_TO_ALL_V = 13,
} mlxcomm_kind;

typedef struct mlxcomm_error {
  mlxcomm_code code;
  int32_t rank;       /* the rank at fault; -1 if unknown */
  char message[1024]; /* for people; UTF-8, NUL-terminated */
} mlxcomm_error;

typedef struct mlxcomm_connection mlxcomm_connection; /* one session with the daemon */
typedef struct mlxcomm_group mlxcomm_group;

/* "MISMATCH" and so on; never NULL. */
MLXCOMM_API const char* mlxcomm_code_name(mlxcomm_code code);
/* "all_reduce" and so on; NULL for a number that is not in mlxcomm_kind. */
MLXCOMM_API const char* mlxcomm_kind_name(mlxcomm_kind kind);
/* "0.1.0" */
MLXCOMM_API const char* mlxcomm_version(void);

typedef struct mlxcomm_connect_options {
  size_t struct_size; /* sizeof(mlxcomm_connect_options) */
  const char*
      socket_path; /* NULL: $MLXCOMM_SOCKET, else the service's socket, else a private daemon */
  uint64_t arena_bytes;     /* address space for buffers; 0: the daemon's maximum */
  uint64_t timeout_ns;      /* 0: 10 s */
  int start_private_daemon; /* 1: start one if none runs and no socket is named */
  /* Called about every 50 ms while waiting; a nonzero result ends the wait with MLXCOMM_CANCELLED.
   * May be NULL. Also called by mlxcomm_join and by waits for this connection's operations. */
  int (*interrupted)(void* context);
  void* interrupted_context;
} mlxcomm_connect_options;

/* Fills in the defaults. */
MLXCOMM_API void mlxcomm_connect_options_init(mlxcomm_connect_options* options);

/* Connects to the daemon. UNAVAILABLE if there is none; the message has the remedy. */
MLXCOMM_API mlxcomm_code mlxcomm_connect(const mlxcomm_connect_options* options,
                                         mlxcomm_connection** connection, mlxcomm_error* error);
/* Ends the session and frees its buffers; never waits for other ranks. Close its groups first. No
 * thread may be in a call on it. */
MLXCOMM_API void mlxcomm_disconnect(mlxcomm_connection* connection);

typedef struct mlxcomm_place_options {
  size_t struct_size; /* sizeof(mlxcomm_place_options) */
  const char* job;    /* NULL: $MLXCOMM_JOB, else from the launcher's variables */
  int64_t rank;       /* -1 (also for size): from the environment */
  int64_t size;
  /* Returns the value of a variable, or NULL if it is not set. `lookup` NULL: this process's
   * environment. */
  const char* (*lookup)(void* context, const char* name);
  void* lookup_context;
} mlxcomm_place_options;
typedef struct mlxcomm_place {
  char job[1024]; /* NUL-terminated, valid for mlxcomm_join */
  uint32_t rank;
  uint32_t size;
  uint32_t launched; /* 1: a launcher's variable named the rank */
} mlxcomm_place;
MLXCOMM_API void mlxcomm_place_options_init(mlxcomm_place_options* options);
/* Finds this process's rank, size and job in the variables set by mlxcommctl launch, mlx.launch,
 * torchrun, Open MPI, PMI or Slurm. If nothing names a rank, it is rank 0 of 1 of job "default".
 * Simultaneous launches get different job names, with these exceptions: mlx.launch with the same
 * addresses (JACCL: the same port and devices), torchrun with the same run and master, RANK with
 * the same MASTER_ADDR and MASTER_PORT, and ranks and sizes set by hand. In these cases set
 * MLXCOMM_JOB.
 *
 * INVALID_ARGUMENT names the variable that is wrong or missing. `options` may be NULL. */
MLXCOMM_API mlxcomm_code mlxcomm_find_place(const mlxcomm_place_options* options,
                                            mlxcomm_place* place, mlxcomm_error* error);

/* Joins `job` (1 to 200 bytes of UTF-8) as `rank` of `size` and waits until all ranks have joined.
 * timeout_ns 0: the daemon's default (5 minutes). DEADLINE_EXCEEDED names the missing ranks or
 * nodes; if the daemon hangs, DAEMON_LOST follows ten seconds after the deadline. A connection
 * joins one job. */
MLXCOMM_API mlxcomm_code mlxcomm_join(mlxcomm_connection* connection, const char* job,
                                      uint32_t rank, uint32_t size, uint64_t timeout_ns,
                                      mlxcomm_group** world, mlxcomm_error* error);
/* Connects and joins. A private daemon that is exiting after its last client may accept this
 * process and then exit; this call then tries the next private daemon, within timeout_ns. On
 * failure there is no connection. */
MLXCOMM_API mlxcomm_code mlxcomm_connect_and_join(const mlxcomm_connect_options* options,
                                                  const char* job, uint32_t rank, uint32_t size,
                                                  uint64_t timeout_ns,
                                                  mlxcomm_connection** connection,
                                                  mlxcomm_group** world, mlxcomm_error* error);
/* Leaves the group in an orderly way, without waiting for other ranks: ranks that still need this
 * one get RANK_LOST. No thread may be in a call on the group. If the daemon does not answer, this
 * waits at most a second. Closing the world group leaves the job, and the job's groups that are
 * still open fail with CANCELLED. */
MLXCOMM_API void mlxcomm_group_close(mlxcomm_group* group);
/* Leaves the job because this program has failed: all other ranks get RANK_LOST at once, with `why`
 * ("ValueError: no such layer"; at most 120 bytes). This process's pending and later calls fail;
 * close its groups as usual. Waits at most a second. Does nothing in a group of one rank, or when
 * called again. */
MLXCOMM_API void mlxcomm_leave(mlxcomm_group* group, const char* why);

/* Makes a new group of all ranks that pass the same color >= 0, ordered by key, then by rank in
 * `group`. Every rank of `group` must call it, in the same order as its operations; a rank that
 * passes MLXCOMM_NO_GROUP as its color joins no new group and gets NULL. The new group inherits
 * timeout and plan. Status shows `name` (1 to 100 bytes of UTF-8; NULL: the color) after the
 * parent's name. timeout_ns limits the whole call. If a rank fails to make its part, all ranks of
 * that part get an error that names it, and no group; the other parts and `group` continue. */
#define MLXCOMM_NO_GROUP (-1)
MLXCOMM_API mlxcomm_code mlxcomm_split(mlxcomm_group* group, int32_t color, int32_t key,
                                       const char* name, uint64_t timeout_ns, mlxcomm_group** part,
                                       mlxcomm_error* error);
/* Makes a new group of the remaining ranks of a failed group, in the old order. Every remaining
 * rank must call it; it returns when all of them have called it or died. DEADLINE_EXCEEDED names
 * the ranks that did not call. Close the failed group afterwards. If it was the world group, the
 * new group takes its place: closing the new one leaves the job. INVALID_ARGUMENT if the group has
 * not failed. */
MLXCOMM_API mlxcomm_code mlxcomm_shrink(mlxcomm_group* group, uint64_t timeout_ns,
                                        mlxcomm_group** rest, mlxcomm_error* error);

MLXCOMM_API uint32_t mlxcomm_rank(const mlxcomm_group* group);
MLXCOMM_API uint32_t mlxcomm_size(const mlxcomm_group* group);
/* "train", "train/rows"; valid until the group is closed. */
MLXCOMM_API const char* mlxcomm_group_name(const mlxcomm_group* group);
/* Where a rank of the group runs: the name of its node (valid until the group is closed) and its
 * process id. NULL and 0 if the rank does not exist. */
MLXCOMM_API const char* mlxcomm_member_node(const mlxcomm_group* group, uint32_t rank);
MLXCOMM_API uint64_t mlxcomm_member_pid(const mlxcomm_group* group, uint32_t rank);
/* Returns the latched failure: MLXCOMM_OK until a call of this process on the group has failed. It
 * asks no other process, so it does not report a failure that only other ranks have seen. */
MLXCOMM_API mlxcomm_code mlxcomm_group_failure(const mlxcomm_group* group, mlxcomm_error* error);
/* Sets the timeout of this rank's later calls on the group that pass 0. 0 means the daemon's
 * default: no deadline, but a call waits only as long as the missing ranks may still call (their
 * processes are alive and not stopped, and the ranks do not all wait for each other). A wait of
 * more than 10 s is reported on standard error, with the missing ranks, unless MLXCOMM_QUIET is
 * set. Groups that are split off later inherit the timeout, so setting it on the world group sets
 * it for the job. */
MLXCOMM_API void mlxcomm_group_set_timeout(mlxcomm_group* group, uint64_t timeout_ns);
/* Applies to later calls; must be the same on all ranks, otherwise they fail with MISMATCH. */
MLXCOMM_API mlxcomm_code mlxcomm_group_set_plan(mlxcomm_group* group, mlxcomm_plan plan,
                                                mlxcomm_error* error);

/* Allocates and frees buffers in the arena. They are page-aligned and reused while warm; if many
 * are free, their pages go back to the system. RESOURCE_EXHAUSTED (with figures) if the arena is
 * full. You may free a buffer while an operation uses it: it is reused only after the operation has
 * ended. */
MLXCOMM_API mlxcomm_code mlxcomm_buffer_allocate(mlxcomm_connection* connection, uint64_t bytes,
                                                 void** buffer, mlxcomm_error* error);
MLXCOMM_API void mlxcomm_buffer_free(mlxcomm_connection* connection, void* buffer);
/* Returns 1 if all of [data, data + bytes) is in the connection's arena. */
MLXCOMM_API int mlxcomm_in_arena(const mlxcomm_connection* connection, const void* data,
                                 uint64_t bytes);

/* Reports that the program copied a result of `bytes` out of the arena, and how long that took: for
 * programs that cannot compute in the arena's memory, for example because the GPU does not accept
 * it. Status shows the totals. */
MLXCOMM_API void mlxcomm_note_copied_result(mlxcomm_connection* connection, uint64_t bytes,
                                            uint64_t nanoseconds);

/* Operations. Input and output must each lie in one buffer of the arena, aligned to their elements
 * (otherwise INVALID_ARGUMENT), and have `count` elements unless stated otherwise; 0 is allowed.
 * They must not overlap, except that output may equal input for operations marked "in place". In a
 * group of one rank the output is the input. timeout_ns 0: the group's default. Each call returns a
 * ticket at once; the buffers belong to the operation until mlxcomm_wait returns (or mlxcomm_test
 * reports the end). If `ticket` is NULL, the call waits and returns the result, as mlxcomm_wait
 * would; this is the fastest way for small operations. Such a call can be neither tested nor
 * cancelled, and two ranks that both send to each other first in this way deadlock.
 * RESOURCE_EXHAUSTED: more than 1023 operations in flight. All ranks of a group must make their
 * calls in the same order. Several threads may make calls; calls on different groups may come in
 * any order.
 *
 * Reductions. The order depends only on the plan and on the layout of ranks on nodes, so results
 * are bitwise equal on all ranks and from run to run. float16 and bfloat16 are combined in float32
 * and rounded on each node and at each hop between nodes: for a sum of n inputs x the absolute
 * error of an element is at most
 *   (h + 1) u S + (n - 1) v S,  S = sum of |x|,
 * u = 2^-11 (float16) or 2^-8 (bfloat16), v = 2^-24, h = hops between nodes <= nodes;
 * for float32 and float64 at most (n - 1) u S with u = 2^-24 and 2^-53 (first order;
 * Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). */

/* One operation, for mlxcomm_submit. Fields that the kind does not use are ignored, so they may be
 * zero. */
typedef struct mlxcomm_request {
  size_t struct_size; /* sizeof(mlxcomm_request) */
  mlxcomm_kind kind;
  mlxcomm_data_type type;
  mlxcomm_operator op;
  uint32_t peer; /* root, destination or source */
  uint32_t tag;
  const void* input;
  void* output;
  uint64_t count;
  const uint64_t* counts; /* all_to_all_v: send_counts */
  const uint64_t* receive_counts;
  uint64_t timeout_ns;
  /* Identifies the program's call of a collective: 24 bits that must be the same on all ranks,
   * otherwise MISMATCH, whose text then has "(check 00a1b2)" after each rank's call. 0: unknown. */
  uint32_t check;
} mlxcomm_request;
/* Begins the operation. The functions below fill in a request; use it directly if the kind is known
 * only at run time. */
MLXCOMM_API mlxcomm_code mlxcomm_submit(mlxcomm_group* group, const mlxcomm_request* request,
                                        uint64_t* ticket, mlxcomm_error* error);

/* Returns a request with the common fields; the caller sets the others. */
MLXCOMM_INLINE mlxcomm_request mlxcomm_request_of(mlxcomm_kind kind, const void* input,
                                                  void* output, uint64_t count,
                                                  mlxcomm_data_type type, uint64_t timeout_ns) {
  const mlxcomm_request request = {sizeof(mlxcomm_request),
                                   kind,
                                   type,
                                   MLXCOMM_SUM,
                                   0,
                                   0,
                                   input,
                                   output,
                                   count,
                                   NULL,
                                   NULL,
                                   timeout_ns,
                                   0};
  return request;
}

/* output = input combined over all ranks. In place. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_all_reduce(mlxcomm_group* group, const void* input,
                                               void* output, uint64_t count, mlxcomm_data_type type,
                                               mlxcomm_operator op, uint64_t timeout_ns,
                                               uint64_t* ticket, mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_ALL_REDUCE, input, output, count, type, timeout_ns);
  request.op = op;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* Like all_reduce, but only rank `root` gets the result; output is unused on other ranks and may be
 * NULL. In place. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_reduce(mlxcomm_group* group, const void* input, void* output,
                                           uint64_t count, mlxcomm_data_type type,
                                           mlxcomm_operator op, uint32_t root, uint64_t timeout_ns,
                                           uint64_t* ticket, mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_REDUCE, input, output, count, type, timeout_ns);
  request.op = op;
  request.peer = root;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* input: size x count elements; output: this rank's block of `count` elements of the combined
 * inputs. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_reduce_scatter(mlxcomm_group* group, const void* input,
                                                   void* output, uint64_t count,
                                                   mlxcomm_data_type type, mlxcomm_operator op,
                                                   uint64_t timeout_ns, uint64_t* ticket,
                                                   mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_REDUCE_SCATTER, input, output, count, type, timeout_ns);
  request.op = op;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* output = the root's input; input is unused on other ranks and may be NULL. In place. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_broadcast(mlxcomm_group* group, const void* input, void* output,
                                              uint64_t count, mlxcomm_data_type type, uint32_t root,
                                              uint64_t timeout_ns, uint64_t* ticket,
                                              mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_BROADCAST, input, output, count, type, timeout_ns);
  request.peer = root;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* output[r * count .. (r + 1) * count) = rank r's input; output: size x count elements. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_all_gather(mlxcomm_group* group, const void* input,
                                               void* output, uint64_t count, mlxcomm_data_type type,
                                               uint64_t timeout_ns, uint64_t* ticket,
                                               mlxcomm_error* error) {
  const mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_ALL_GATHER, input, output, count, type, timeout_ns);
  return mlxcomm_submit(group, &request, ticket, error);
}
/* counts[r] elements from rank r, packed in order of rank. `counts` has size entries, is the
 * same on all ranks, and is read before the call returns. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_all_gather_v(mlxcomm_group* group, const void* input,
                                                 void* output, const uint64_t* counts,
                                                 mlxcomm_data_type type, uint64_t timeout_ns,
                                                 uint64_t* ticket, mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_ALL_GATHER_V, input, output, 0, type, timeout_ns);
  request.counts = counts;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* Like all_gather, but only rank `root` gets the result. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_gather(mlxcomm_group* group, const void* input, void* output,
                                           uint64_t count, mlxcomm_data_type type, uint32_t root,
                                           uint64_t timeout_ns, uint64_t* ticket,
                                           mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_GATHER, input, output, count, type, timeout_ns);
  request.peer = root;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* output = block `rank` of the root's input, which has size x count elements. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_scatter(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type, uint32_t root,
                                            uint64_t timeout_ns, uint64_t* ticket,
                                            mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_SCATTER, input, output, count, type, timeout_ns);
  request.peer = root;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* Block r of the input goes to rank r; block r of the output comes from rank r. Both:
 * size x count elements. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_all_to_all(mlxcomm_group* group, const void* input,
                                               void* output, uint64_t count, mlxcomm_data_type type,
                                               uint64_t timeout_ns, uint64_t* ticket,
                                               mlxcomm_error* error) {
  const mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_ALL_TO_ALL, input, output, count, type, timeout_ns);
  return mlxcomm_submit(group, &request, ticket, error);
}
/* send_counts[r] elements go to rank r and receive_counts[r] come from rank r, both packed in order
 * of rank. The two ranks of a pair must agree (otherwise MISMATCH, or INVALID_ARGUMENT for a rank's
 * own block). The tables have size entries and are read before the call returns. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_all_to_all_v(mlxcomm_group* group, const void* input,
                                                 void* output, const uint64_t* send_counts,
                                                 const uint64_t* receive_counts,
                                                 mlxcomm_data_type type, uint64_t timeout_ns,
                                                 uint64_t* ticket, mlxcomm_error* error) {
  mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_ALL_TO_ALL_V, input, output, 0, type, timeout_ns);
  request.counts = send_counts;
  request.receive_counts = receive_counts;
  return mlxcomm_submit(group, &request, ticket, error);
}
/* Sends to, or receives from, another rank of the group. The n-th send to a rank with a tag matches
 * the n-th receive there from this rank with that tag; type and count must agree. */
MLXCOMM_INLINE mlxcomm_code mlxcomm_send(mlxcomm_group* group, const void* input, uint64_t count,
                                         mlxcomm_data_type type, uint32_t destination, uint32_t tag,
                                         uint64_t timeout_ns, uint64_t* ticket,
                                         mlxcomm_error* error) {
  mlxcomm_request request = mlxcomm_request_of(MLXCOMM_SEND, input, NULL, count, type, timeout_ns);
  request.peer = destination;
  request.tag = tag;
  return mlxcomm_submit(group, &request, ticket, error);
}
MLXCOMM_INLINE mlxcomm_code mlxcomm_recv(mlxcomm_group* group, void* output, uint64_t count,
                                         mlxcomm_data_type type, uint32_t source, uint32_t tag,
                                         uint64_t timeout_ns, uint64_t* ticket,
                                         mlxcomm_error* error) {
  mlxcomm_request request = mlxcomm_request_of(MLXCOMM_RECV, NULL, output, count, type, timeout_ns);
  request.peer = source;
  request.tag = tag;
  return mlxcomm_submit(group, &request, ticket, error);
}
MLXCOMM_INLINE mlxcomm_code mlxcomm_barrier(mlxcomm_group* group, uint64_t timeout_ns,
                                            uint64_t* ticket, mlxcomm_error* error) {
  const mlxcomm_request request =
      mlxcomm_request_of(MLXCOMM_BARRIER, NULL, NULL, 0, MLXCOMM_FLOAT32, timeout_ns);
  return mlxcomm_submit(group, &request, ticket, error);
}

/* Returns whether an operation with an input of `bytes` is faster in place (1) or with a separate
 * output (0), for programs that copy the input into the arena anyway and can choose where. Also 0
 * if the kind cannot be in place. */
MLXCOMM_API int mlxcomm_prefers_in_place(const mlxcomm_group* group, mlxcomm_kind kind,
                                         uint64_t bytes);

/* Waits for the operation to end and returns its result. Wait for each ticket once. The daemon
 * enforces the deadline. If the daemon hangs, this returns DAEMON_LOST ten seconds after the
 * deadline (two seconds after this call, if that is later). Without a deadline the daemon is asked
 * after ten seconds, then every minute, and is lost if it does not answer within ten. If the daemon
 * answers, but something still uses the buffers twelve seconds after the deadline, only the group
 * fails (DEADLINE_EXCEEDED). When interrupted, this returns CANCELLED within 200 ms, and the
 * operation is given up as by mlxcomm_cancel. In these cases do not use the buffers again; once
 * freed, they are reused when nothing touches them. */
MLXCOMM_API mlxcomm_code mlxcomm_wait(mlxcomm_group* group, uint64_t ticket, mlxcomm_error* error);
/* Does not wait for the operation: sets *done to 1 once it has ended, returns its result, and
 * consumes the ticket. For a ticket that is not in flight it sets *done to 1 and returns
 * INVALID_ARGUMENT. It queries the daemon when mlxcomm_wait would, and waits for the answer as
 * long. */
MLXCOMM_API mlxcomm_code mlxcomm_test(mlxcomm_group* group, uint64_t ticket, int* done,
                                      mlxcomm_error* error);
/* Declares that no thread waits for the operation for now: until mlxcomm_wait it is not reported on
 * standard error, and its rank does not count as waiting. Meant for sends after which the program
 * continues. */
MLXCOMM_API void mlxcomm_go_on(mlxcomm_group* group, uint64_t ticket);
/* Gives up the operation, which fails its group with CANCELLED on all ranks, because some may have
 * completed the collective and others not. Waits until nothing touches its buffers, at most
 * timeout_ns (0: 10 s), even if interrupted. The ticket is consumed, unless this returns
 * DEADLINE_EXCEEDED. MLXCOMM_OK: the operation had already succeeded. If another thread waits for
 * the ticket, that thread may get the result instead. */
MLXCOMM_API mlxcomm_code mlxcomm_cancel(mlxcomm_group* group, uint64_t ticket, uint64_t timeout_ns,
                                        mlxcomm_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLXCOMM_H_ */
