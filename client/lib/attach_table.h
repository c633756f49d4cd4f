/* The control service for libmlxcomm, as a table of C functions in the module libmlxcomm_attach. A process loads
 * the module when it first connects, so that programs that only link or import mlxcomm do not pay for it.
 *
 * Blocking calls call `interrupt` about every 50 ms, and end ten seconds after their deadline even if the daemon
 * does not answer. They return a mlxcomm_code. Failure messages are for users and do not mention the protocol.
 *
 * Owner: the module, static. Thread: any. Memory: an Attachment is made by open and
 * ended by close; strings are the caller's, on both sides.
 */
#ifndef MLXCOMM_ATTACH_TABLE_H_
#define MLXCOMM_ATTACH_TABLE_H_

#include <stddef.h>
#include <stdint.h>

struct mlxcomm_error;
struct mlxcomm_attachment;

/* Like mlxcomm_connect_options.interrupted. */
struct mlxcomm_interrupt {
  int (*interrupted)(void* context);
  void* context;
};

/* A group, as the daemon describes it. */
struct mlxcomm_group_told {
  uint64_t group;
  uint32_t rank;               /* attach: not told */
  uint64_t timeout_default_ns; /* attach alone */
  const char* name;            /* attach: not told */
  size_t members;
};
/* Called before a call that makes a group returns MLXCOMM_OK: `group` once, then `member` for
 * each rank, in order. */
struct mlxcomm_group_listener {
  void* context;
  void (*group)(void* context, const struct mlxcomm_group_told* reported);
  void (*member)(void* context, const char* node, uint64_t pid);
};

struct mlxcomm_attach_table {
  /* Takes over the connection; `token` are the hello's bytes. */
  struct mlxcomm_attachment* (*open)(int connection, const uint8_t* token, size_t token_bytes);
  /* Joins a job; blocks. timeout_ns 0: the daemon's default; named_by: AttachRequest's. */
  int (*attach)(struct mlxcomm_attachment*, const char* job, uint32_t rank, uint32_t size,
                uint64_t timeout_ns, const char* program, const char* named_by,
                struct mlxcomm_interrupt interrupt, struct mlxcomm_group_listener listener,
                struct mlxcomm_error* error);
  /* Makes the group of these ranks of `parent`; the answer comes at once. */
  int (*split)(struct mlxcomm_attachment*, uint64_t parent, uint64_t number, const uint32_t* ranks,
               size_t rank_count, const char* name, uint64_t timeout_ns,
               struct mlxcomm_interrupt interrupt, struct mlxcomm_group_listener listener,
               struct mlxcomm_error* error);
  /* Makes the group of the ranks that are left; blocks. timeout_ns as for attach. */
  int (*shrink)(struct mlxcomm_attachment*, uint64_t group, uint64_t timeout_ns,
                struct mlxcomm_interrupt interrupt, struct mlxcomm_group_listener listener,
                struct mlxcomm_error* error);
  /* Asks the daemon to end an operation, and waits at most patience_ns for its answer. Not 0: it
   * has answered. The operation's end comes as its completion. */
  int (*cancel)(struct mlxcomm_attachment*, uint64_t group, uint64_t ticket, uint64_t patience_ns);
  /* Writes into `text` which ranks an operation is waiting for (group 0: which job looks like the
   * other half of the one that is forming), cut to fit and ended by a NUL. Sets `ended` to 1 if the
   * operation is no longer in flight or its group has failed, and to MLXCOMM_AWAITED_CIRCLE if the
   * text names ranks that wait for each other. Waits at most patience_ns for the daemon's answer, or
   * until interrupted. Returns 0 if the daemon has not answered in that time. */
  int (*awaited)(struct mlxcomm_attachment*, uint64_t group, uint64_t ticket, uint64_t patience_ns,
                 struct mlxcomm_interrupt interrupt, char* text, size_t text_bytes, int* ended);
  /* Leave one group, or all: in order, or because of the fault that `why` names (NULL: in
   * order). They wait at most a second. */
  void (*release)(struct mlxcomm_attachment*, uint64_t group);
  void (*detach)(struct mlxcomm_attachment*, const char* why);
  void (*close)(struct mlxcomm_attachment*);
};

#define MLXCOMM_AWAITED_CIRCLE 2

/* The module's one symbol; its number changes with the table. */
#define MLXCOMM_ATTACH_TABLE_SYMBOL "mlxcomm_attach_table_v5"

#endif /* MLXCOMM_ATTACH_TABLE_H_ */
