#include "client/mlx/group_impl.h"

#include <atomic>
#include <stdexcept>

#include "client/lib/interrupt.h"
#include "client/mlx/operation.h"
#include "client/mlx/operation_error.h"
#include "client/mlx/operation_task.h"
#include "client/mlx/process_end.h"
#include "client/mlx/result_memory.h"
#include "mlx/device.h"
#include "mlx/utils.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

std::atomic<void (*)(const std::function<void()>&)> around_waits{nullptr};

void Wait(const std::function<void()>& wait) {
  if (auto* const around = around_waits.load(); around != nullptr) {
    around(wait);
  } else {
    wait();
  }
}

}  // namespace

void SetAroundWaits(void (*around)(const std::function<void()>& wait)) { around_waits = around; }

mx::Stream DaemonGroup::communication_stream(mx::StreamOrDevice s) {
  return mx::to_stream(s, mx::Device::cpu);
}

mlxcomm_code DaemonGroup::Barrier(std::uint64_t timeout_ns, mlxcomm_error& error) {
  const GroupUse use;
  const client::UnderWay under_way;
  return mlxcomm_barrier(handle(), timeout_ns, nullptr, &error);
}

mlxcomm_code DaemonGroup::Split(std::int32_t color, std::int32_t key, const char* name,
                                std::uint64_t timeout_ns, std::shared_ptr<DaemonGroup>& part,
                                mlxcomm_error& error) {
  const GroupUse use;
  const client::UnderWay under_way;
  mlxcomm_group* made = nullptr;
  const mlxcomm_code code = mlxcomm_split(handle(), color, key, name, timeout_ns, &made, &error);
  if (code != MLXCOMM_OK || made == nullptr) return code;
  part = std::make_shared<DaemonGroup>(
      std::make_shared<JoinedGroup>(joined_->connected, made, joined_));
  return code;
}

mlxcomm_code DaemonGroup::Shrink(std::uint64_t timeout_ns, std::shared_ptr<DaemonGroup>& rest,
                                 mlxcomm_error& error) {
  const GroupUse use;
  const client::UnderWay under_way;
  mlxcomm_group* made = nullptr;
  const mlxcomm_code code = mlxcomm_shrink(handle(), timeout_ns, &made, &error);
  if (code != MLXCOMM_OK) return code;
  rest = std::make_shared<DaemonGroup>(
      std::make_shared<JoinedGroup>(joined_->connected, made, joined_));
  return code;
}

std::shared_ptr<mx::distributed::detail::GroupImpl> DaemonGroup::split(int color, int key) {
  std::shared_ptr<DaemonGroup> part;
  mlxcomm_error error{};
  mlxcomm_code code = MLXCOMM_OK;
  Wait([&] {
    code = Split(color < 0 ? MLXCOMM_NO_GROUP : color, key < 0 ? rank() : key, nullptr, 0, part,
                 error);
  });
  CheckOperation(code, error, handle());
  if (part == nullptr) return std::make_shared<AloneGroup>();
  return part;
}

void DaemonGroup::AllReduce(mlxcomm_operator op, const array& input, array& output, Stream stream) {
  Schedule(joined_, {.kind = OperationKind::kAllReduce, .op = op}, &input, &output, stream);
}

void DaemonGroup::sum_scatter(const array& input, array& output, Stream stream) {
  Schedule(joined_, {.kind = OperationKind::kReduceScatter, .op = MLXCOMM_SUM}, &input, &output,
           stream);
}

void DaemonGroup::all_gather(const array& input, array& output, Stream stream) {
  Schedule(joined_, {.kind = OperationKind::kAllGather}, &input, &output, stream);
}

void DaemonGroup::send(const array& input, int destination, Stream stream) {
  Schedule(joined_, {.kind = OperationKind::kSend, .root = static_cast<std::uint32_t>(destination)},
           &input, nullptr, stream);
}

void DaemonGroup::recv(array& output, int source, Stream stream) {
  Schedule(joined_, {.kind = OperationKind::kReceive, .root = static_cast<std::uint32_t>(source)},
           nullptr, &output, stream);
}

mx::Stream AloneGroup::communication_stream(mx::StreamOrDevice s) { return mx::to_stream(s); }

void AloneGroup::Refuse() {
  throw std::runtime_error("[mlxcomm] cannot communicate in a group of one rank");
}

mlxcomm_code JoinJob(const std::string& job, std::uint32_t rank, std::uint32_t size,
                     const JoinOptions& options, std::shared_ptr<DaemonGroup>& joined,
                     mlxcomm_error& error) {
  CopiesResults();
  const client::UnderWay under_way;
  mlxcomm_connect_options connecting;
  mlxcomm_connect_options_init(&connecting);
  if (!options.socket.empty()) connecting.socket_path = options.socket.c_str();
  connecting.arena_bytes = options.arena_bytes;
  connecting.interrupted = client::WasInterrupted;
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* group = nullptr;
  const mlxcomm_code code = mlxcomm_connect_and_join(
      &connecting, job.c_str(), rank, size, options.timeout_ns, &connection, &group, &error);
  if (code == MLXCOMM_OK) {
    joined = std::make_shared<DaemonGroup>(
        std::make_shared<JoinedGroup>(std::make_shared<Connected>(connection), group));
  }
  return code;
}

}  // namespace mlxcomm::graph
