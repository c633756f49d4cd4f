// Stands for libmlxcomm_attach: joining without gRPC. The name of the job says how it
// ends: "refused" is, every other one is group 7 with a deadline of a minute.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"

struct mlxcomm_attachment {
  int connection;
};

namespace {

mlxcomm_attachment* Open(int connection, const std::uint8_t*, std::size_t) {
  return new mlxcomm_attachment{connection};
}

int Attach(mlxcomm_attachment*, const char* job, std::uint32_t, std::uint32_t, std::uint64_t,
           const char*, mlxcomm_interrupt, mlxcomm_attached* attached, mlxcomm_error* error) {
  if (std::string(job) == "refused") {
    error->rank = 1;
    std::snprintf(error->message, sizeof error->message, "rank 1 is taken");
    return MLXCOMM_ALREADY_EXISTS;
  }
  attached->group = 7;
  attached->timeout_default_ns = 60'000'000'000;
  return MLXCOMM_OK;
}

void Detach(mlxcomm_attachment*) {}

void Close(mlxcomm_attachment* attachment) {
  ::close(attachment->connection);
  delete attachment;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mlxcomm_attach_table
    mlxcomm_attach_table_v1;
const mlxcomm_attach_table mlxcomm_attach_table_v1 = {Open, Attach, Detach, Close};
