// MLX's GroupImpl over an mlxcomm group: what mx.distributed calls. operation_task.h runs the
// operations; MLX's own primitives provide shapes and gradients.
//
// Owner: mx.distributed.Group and MLX's primitives. Thread: MLX's; split on the caller's. Memory:
// the arena's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/lib/mlxcomm.h"
#include "client/mlx/joined_group.h"
#include "mlx/array.h"
#include "mlx/distributed/distributed_impl.h"

namespace mlxcomm::graph {

// `around` must run each wait inside a call of MLX (Group::split) that it is given; Python releases
// the GIL in the meantime.
void SetAroundWaits(void (*around)(const std::function<void()>& wait));

class DaemonGroup final : public mlx::core::distributed::detail::GroupImpl {
 public:
  using array = mlx::core::array;  // NOLINT(readability-identifier-naming): MLX's own.
  using Stream = mlx::core::Stream;

  explicit DaemonGroup(std::shared_ptr<JoinedGroup> joined) : joined_(std::move(joined)) {}
  mlxcomm_group* handle() const { return joined_->group; }
  const std::shared_ptr<JoinedGroup>& joined() const { return joined_; }

  // These block.
  mlxcomm_code Barrier(std::uint64_t timeout_ns, mlxcomm_error& error);
  // `part` is null if this rank does not take part.
  mlxcomm_code Split(std::int32_t color, std::int32_t key, const char* name,
                     std::uint64_t timeout_ns, std::shared_ptr<DaemonGroup>& part,
                     mlxcomm_error& error);
  mlxcomm_code Shrink(std::uint64_t timeout_ns, std::shared_ptr<DaemonGroup>& rest,
                      mlxcomm_error& error);

  Stream communication_stream(mlx::core::StreamOrDevice s) override;
  int rank() override { return static_cast<int>(joined_->rank()); }
  int size() override { return static_cast<int>(joined_->size()); }
  // With a negative color the rank gets a group of its own, because MLX has no "no group".
  std::shared_ptr<GroupImpl> split(int color, int key) override;
  void all_sum(const array& input, array& output, Stream stream) override {
    AllReduce(MLXCOMM_SUM, input, output, stream);
  }
  void all_gather(const array& input, array& output, Stream stream) override;
  void send(const array& input, int destination, Stream stream) override;
  void recv(array& output, int source, Stream stream) override;
  void all_max(const array& input, array& output, Stream stream) override {
    AllReduce(MLXCOMM_MAX, input, output, stream);
  }
  void all_min(const array& input, array& output, Stream stream) override {
    AllReduce(MLXCOMM_MIN, input, output, stream);
  }
  void sum_scatter(const array& input, array& output, Stream stream) override;

 private:
  void AllReduce(mlxcomm_operator op, const array& input, array& output, Stream stream);
  std::shared_ptr<JoinedGroup> joined_;
};

// A group of one rank, as MLX uses without a launcher. MLX does not call operations on it.
class AloneGroup final : public mlx::core::distributed::detail::GroupImpl {
 public:
  using array = mlx::core::array;  // NOLINT(readability-identifier-naming): MLX's own.
  using Stream = mlx::core::Stream;
  Stream communication_stream(mlx::core::StreamOrDevice s) override;
  int rank() override { return 0; }
  int size() override { return 1; }
  std::shared_ptr<GroupImpl> split(int, int) override { return std::make_shared<AloneGroup>(); }
  void all_sum(const array&, array&, Stream) override { Refuse(); }
  void all_gather(const array&, array&, Stream) override { Refuse(); }
  void send(const array&, int, Stream) override { Refuse(); }
  void recv(array&, int, Stream) override { Refuse(); }
  void all_max(const array&, array&, Stream) override { Refuse(); }
  void all_min(const array&, array&, Stream) override { Refuse(); }
  void sum_scatter(const array&, array&, Stream) override { Refuse(); }

 private:
  [[noreturn]] static void Refuse();
};

struct JoinOptions {
  std::string socket = {};  // Empty means mlxcomm_connect's default.
  std::uint64_t timeout_ns =
      0;  // Limits the wait for other ranks to join; 0: the daemon's default.
  std::uint64_t arena_bytes = 0;  // 0 means as much as the daemon allows.
};

// Connects to this machine's daemon and waits until all ranks have joined; holds no lock. If the
// program handles Ctrl-C, it ends the wait with CANCELLED. Throws std::invalid_argument if
// MLXCOMM_RESULTS is invalid.
mlxcomm_code JoinJob(const std::string& job, std::uint32_t rank, std::uint32_t size,
                     const JoinOptions& options, std::shared_ptr<DaemonGroup>& joined,
                     mlxcomm_error& error);

}  // namespace mlxcomm::graph
