/* What libmlxcomm needs of gRPC, as a table of C functions: the module
 * libmlxcomm_attach has it, and is loaded when a process first connects, so that
 * nobody who only links or imports mlxcomm pays for gRPC.
 *
 * Owner: the module, static. Thread: any. Memory: an Attachment is made by open and
 * ended by close.
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

struct mlxcomm_attached {
  uint64_t group;
  uint64_t timeout_default_ns;
};

struct mlxcomm_attach_table {
  /* Takes the connection; `token` are the hello's bytes. */
  struct mlxcomm_attachment* (*open)(int connection, const uint8_t* token, size_t token_bytes);
  /* Joins a job; blocks. Returns a mlxcomm_code. */
  int (*attach)(struct mlxcomm_attachment*, const char* job, uint32_t rank, uint32_t size,
                uint64_t timeout_ns, const char* program, struct mlxcomm_interrupt interrupt,
                struct mlxcomm_attached* attached, struct mlxcomm_error* error);
  /* Leaves in order; waits a second at most. */
  void (*detach)(struct mlxcomm_attachment*);
  void (*close)(struct mlxcomm_attachment*);
};

/* The module's one symbol. */
#define MLXCOMM_ATTACH_TABLE_SYMBOL "mlxcomm_attach_table_v1"

#endif /* MLXCOMM_ATTACH_TABLE_H_ */
