// The verbs of a shared library as a table of functions: librdma.dylib on macOS, libibverbs.so.1 on
// Linux, or one named in the configuration (tests use a fake).
//
// Loaded at run time, because most machines have none. The structures come from the build system's
// <infiniband/verbs.h>: the macOS SDK, or rdma-core on Linux (libibverbs-dev, used under its BSD
// licence). Own declarations were rejected: posting and polling go through pointers inside these
// structures, so one new field in a later system would crash.
//
// Owner: a device. Thread: any, once loaded.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "absl/status/statusor.h"

// The header defines macros for these.
#undef ibv_query_port
#undef ibv_reg_mr

namespace mlxcomm::rdma {

struct Verbs {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  // Fills what all versions of the structure have; the caller must clear it first.
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
  int (*query_gid)(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t bytes, int access);
  int (*dereg_mr)(ibv_mr* region);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                       int vector);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** cookie);
  void (*ack_cq_events)(ibv_cq* queue, unsigned int count);
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*query_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* initial);
  int (*destroy_qp)(ibv_qp* pair);
  const char* (*wc_status_str)(ibv_wc_status status);  // May be missing.
};

// Stand-ins replace queries and completion channels if these are missing; channels cannot be made
// then. NOT_FOUND: no such library, or it lacks another function.
absl::StatusOr<Verbs> LoadVerbs(const std::string& path);

}  // namespace mlxcomm::rdma
