// MLX's GroupImpl over a mlxcomm group: what mx.distributed calls.
//
// Each collective is a task of MLX's CPU encoder: it copies the input into the arena
// (or not, if it was born there), submits, and waits. Outputs are arena memory. A
// failure is thrown from the task, so evaluation raises it, and from every later call
// on the group at once.
//
// Owner: mx.distributed.Group and the tasks under way. Thread: MLX's stream threads.
// Memory: the arena's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "client/lib/mlxcomm.h"
#include "client/python/src/arena_arrays.h"
#include "mlx/array.h"
#include "mlx/distributed/distributed_impl.h"

namespace mlxcomm::python {

// Since the module was loaded; for tests and the curious.
struct Counters {
  std::atomic<std::uint64_t> operations{0};
  std::atomic<std::uint64_t> inputs_copied{0};
  std::atomic<std::uint64_t> inputs_in_arena{0};
};
Counters& GetCounters();

// The handle, closed in order when the last user lets go.
struct JoinedGroup {
  JoinedGroup(std::shared_ptr<Connected> on, mlxcomm_group* joined, std::string job_name)
      : connected(std::move(on)), group(joined), job(std::move(job_name)) {}
  ~JoinedGroup() { mlxcomm_group_close(group); }
  JoinedGroup(const JoinedGroup&) = delete;
  JoinedGroup& operator=(const JoinedGroup&) = delete;
  std::shared_ptr<Connected> connected;
  mlxcomm_group* group;
  std::string job;
};

class DaemonGroup final : public mlx::core::distributed::detail::GroupImpl {
 public:
  using array = mlx::core::array;
  using Stream = mlx::core::Stream;

  explicit DaemonGroup(std::shared_ptr<JoinedGroup> joined) : joined_(std::move(joined)) {}
  mlxcomm_group* handle() const { return joined_->group; }
  const std::string& job() const { return joined_->job; }
  // Blocks.
  mlxcomm_code Barrier(mlxcomm_error& error);

  Stream communication_stream(mlx::core::StreamOrDevice s) override;
  int rank() override { return static_cast<int>(mlxcomm_rank(joined_->group)); }
  int size() override { return static_cast<int>(mlxcomm_size(joined_->group)); }
  std::shared_ptr<GroupImpl> split(int color, int key) override;
  void all_sum(const array& input, array& output, Stream stream) override;
  void all_gather(const array& input, array& output, Stream stream) override;
  void send(const array& input, int destination, Stream stream) override;
  void recv(array& output, int source, Stream stream) override;
  void all_max(const array& input, array& output, Stream stream) override;
  void all_min(const array& input, array& output, Stream stream) override;
  void sum_scatter(const array& input, array& output, Stream stream) override;

 private:
  std::shared_ptr<JoinedGroup> joined_;
};

// A group of one: what MLX does without a launcher.
class AloneGroup final : public mlx::core::distributed::detail::GroupImpl {
 public:
  using array = mlx::core::array;
  using Stream = mlx::core::Stream;
  Stream communication_stream(mlx::core::StreamOrDevice s) override;
  int rank() override { return 0; }
  int size() override { return 1; }
  std::shared_ptr<GroupImpl> split(int color, int key) override;
  void all_sum(const array&, array&, Stream) override;
  void all_gather(const array&, array&, Stream) override;
  void send(const array&, int, Stream) override;
  void recv(array&, int, Stream) override;
  void all_max(const array&, array&, Stream) override;
  void all_min(const array&, array&, Stream) override;
  void sum_scatter(const array&, array&, Stream) override;
};

}  // namespace mlxcomm::python
