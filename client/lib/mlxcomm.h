/* mlxcomm: collectives between processes, carried out by a daemon.
 *
 * A process connects to the daemon of its machine (one is started if there is
 * none), joins a job as one of its ranks, and submits operations on buffers in
 * its arena, a shared-memory region. All calls may be made from any thread.
 *
 * Every call that can fail returns a mlxcomm_code and, if `error` is not NULL,
 * fills it. Every wait has a deadline. A group that has failed stays failed: each
 * later call on it returns the same error at once.
 *
 * After fork() the child must not use what the parent made, nor connect itself (gRPC
 * does not survive a fork); its calls fail with MLXCOMM_INVALID_ARGUMENT. Start children
 * by exec.
 */
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
extern "C" {
#endif

#define MLXCOMM_VERSION_MAJOR 0
#define MLXCOMM_VERSION_MINOR 1
#define MLXCOMM_VERSION_PATCH 0

typedef enum mlxcomm_code {
  MLXCOMM_OK = 0,
  MLXCOMM_INVALID_ARGUMENT = 1,
  MLXCOMM_MISMATCH = 2,           /* ranks of a group called different things */
  MLXCOMM_DEADLINE_EXCEEDED = 3,  /* the message says who did not come */
  MLXCOMM_RANK_LOST = 4,          /* error.rank says which */
  MLXCOMM_DAEMON_LOST = 5,        /* buffers stay readable; connect anew */
  MLXCOMM_DAEMON_STOPPING = 6,
  MLXCOMM_RESOURCE_EXHAUSTED = 7,
  MLXCOMM_CANCELLED = 8,
  MLXCOMM_ALREADY_EXISTS = 9,     /* the rank is taken */
  MLXCOMM_UNAVAILABLE = 10,       /* no daemon, or no link to a node */
  MLXCOMM_PERMISSION_DENIED = 11,
  MLXCOMM_INTERNAL = 12,
} mlxcomm_code;

typedef enum mlxcomm_data_type {
  MLXCOMM_FLOAT32 = 1,
  MLXCOMM_FLOAT16 = 2,
  MLXCOMM_BFLOAT16 = 3,
  MLXCOMM_INT32 = 4,
} mlxcomm_data_type;

typedef enum mlxcomm_operator {
  MLXCOMM_SUM = 1,
} mlxcomm_operator;

typedef struct mlxcomm_error {
  mlxcomm_code code;
  int32_t rank;       /* the rank at fault, -1 where none can be named */
  char message[1024]; /* for people; UTF-8, NUL-terminated */
} mlxcomm_error;

typedef struct mlxcomm_connection mlxcomm_connection; /* one session with the daemon */
typedef struct mlxcomm_group mlxcomm_group;

/* "MISMATCH" and so on; never NULL. */
MLXCOMM_API const char* mlxcomm_code_name(mlxcomm_code code);
/* "0.1.0" */
MLXCOMM_API const char* mlxcomm_version(void);

typedef struct mlxcomm_connect_options {
  size_t struct_size;       /* sizeof(mlxcomm_connect_options) */
  const char* socket_path;  /* NULL: $MLXCOMM_SOCKET, else the service's socket, else a private daemon */
  uint64_t arena_bytes;     /* address space for buffers; 0: the daemon's default */
  uint64_t timeout_ns;      /* 0: 10 s */
  int start_private_daemon; /* 1: start one if there is none (unless a socket was named) */
  /* Asked about every 50 ms while waiting; nonzero gives MLXCOMM_CANCELLED. May be NULL.
   * Also used by mlxcomm_join and by waits for operations of this connection. */
  int (*interrupted)(void* context);
  void* interrupted_context;
} mlxcomm_connect_options;

/* Fills in the defaults. */
MLXCOMM_API void mlxcomm_connect_options_init(mlxcomm_connect_options* options);

/* Connects to the daemon. UNAVAILABLE when there is none, with what to do. */
MLXCOMM_API mlxcomm_code mlxcomm_connect(const mlxcomm_connect_options* options,
                                         mlxcomm_connection** connection, mlxcomm_error* error);
/* Ends the session; never blocks on other ranks. Groups of it must be closed before, and
 * no thread may be in a call on it. Its buffers are gone with it. */
MLXCOMM_API void mlxcomm_disconnect(mlxcomm_connection* connection);

/* Joins `job` (1 to 200 bytes of UTF-8) as `rank` of `size` and waits until all ranks are
 * there. timeout_ns 0: the daemon's default (5 minutes). A connection joins one job. */
MLXCOMM_API mlxcomm_code mlxcomm_join(mlxcomm_connection* connection, const char* job,
                                      uint32_t rank, uint32_t size, uint64_t timeout_ns,
                                      mlxcomm_group** world, mlxcomm_error* error);
/* Leaves in an orderly way: peers that still need this rank get RANK_LOST. No thread may
 * be in a call on the group. Waits a second at most. */
MLXCOMM_API void mlxcomm_group_close(mlxcomm_group* group);

MLXCOMM_API uint32_t mlxcomm_rank(const mlxcomm_group* group);
MLXCOMM_API uint32_t mlxcomm_size(const mlxcomm_group* group);
/* The latched failure: MLXCOMM_OK while the group works. */
MLXCOMM_API mlxcomm_code mlxcomm_group_failure(const mlxcomm_group* group, mlxcomm_error* error);

/* Buffers in the arena: page-aligned, reused warm, given back to the system when
 * many are free. RESOURCE_EXHAUSTED (with figures) when the arena is full. A
 * buffer may be freed while an operation uses it: it is reused only after that. */
MLXCOMM_API mlxcomm_code mlxcomm_buffer_allocate(mlxcomm_connection* connection, uint64_t bytes,
                                                 void** buffer, mlxcomm_error* error);
MLXCOMM_API void mlxcomm_buffer_free(mlxcomm_connection* connection, void* buffer);
/* 1 if all of [data, data + bytes) lies in the connection's arena. */
MLXCOMM_API int mlxcomm_in_arena(const mlxcomm_connection* connection, const void* data,
                                 uint64_t bytes);

/* Operations. Input and output must each lie in one buffer (else INVALID_ARGUMENT) and
 * are `count` elements unless said otherwise; 0 is allowed. timeout_ns 0: the
 * default. Each returns a ticket at once; the buffers belong to the operation
 * until mlxcomm_wait has returned. RESOURCE_EXHAUSTED: more than 1023 in flight.
 * Calls of all ranks of a group must come in the same order. */

/* output = input combined over all ranks; may be in place. The order of summation
 * depends on the layout of ranks on nodes alone, so results are bitwise equal on all
 * ranks and from run to run. float16 and bfloat16 are summed in float32 and
 * rounded once on each node and at each hop between nodes. int32 wraps. */
MLXCOMM_API mlxcomm_code mlxcomm_all_reduce(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            mlxcomm_operator op, uint64_t timeout_ns,
                                            uint64_t* ticket, mlxcomm_error* error);
/* output[r * count .. (r + 1) * count) = rank r's input; output has size * count
 * elements and does not overlap input. */
MLXCOMM_API mlxcomm_code mlxcomm_all_gather(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            uint64_t timeout_ns, uint64_t* ticket,
                                            mlxcomm_error* error);
/* The n-th send to a rank with a tag meets the n-th receive there from this rank
 * with that tag; type and count must agree. */
MLXCOMM_API mlxcomm_code mlxcomm_send(mlxcomm_group* group, const void* input, uint64_t count,
                                      mlxcomm_data_type type, uint32_t destination, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket, mlxcomm_error* error);
MLXCOMM_API mlxcomm_code mlxcomm_recv(mlxcomm_group* group, void* output, uint64_t count,
                                      mlxcomm_data_type type, uint32_t source, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket, mlxcomm_error* error);
MLXCOMM_API mlxcomm_code mlxcomm_barrier(mlxcomm_group* group, uint64_t timeout_ns,
                                         uint64_t* ticket, mlxcomm_error* error);

/* Waits for the operation's end and returns how it ended. Each ticket is waited
 * for once. Never waits longer than the operation's deadline and a little. */
MLXCOMM_API mlxcomm_code mlxcomm_wait(mlxcomm_group* group, uint64_t ticket, mlxcomm_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLXCOMM_H_ */
