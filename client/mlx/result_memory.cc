#include "client/mlx/result_memory.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "client/mlx/operation_task.h"
#include "mlx/allocator.h"
#include "mlx/ops.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;
namespace allocator = mlx::core::allocator;

bool ReadVariable() {
  const char* const value = std::getenv("MLXCOMM_RESULTS");
  const std::string_view word = value == nullptr ? "" : value;
  if (word == "copy") return true;
  if (word.empty() || word == "share") return false;
  throw std::invalid_argument("MLXCOMM_RESULTS: expected share or copy, got \"" +
                              std::string(word) + "\"");
}

}  // namespace

struct ResultMemory::OwnMemory {
  explicit OwnMemory(std::uint64_t bytes) : buffer(allocator::allocator().malloc(bytes)) {
    if (bytes == 0 || buffer.ptr() != nullptr) return;
    throw std::runtime_error("[mlxcomm] out of memory for a result of " + std::to_string(bytes) +
                             " bytes");
  }
  ~OwnMemory() { allocator::allocator().free(buffer); }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  allocator::Buffer buffer;
};

std::shared_ptr<ResultMemory> ResultMemory::Give(mx::array& output,
                                                 const std::shared_ptr<Connected>& connected) {
  auto result = std::make_shared<ResultMemory>();
  result->connected_ = connected;
  result->bytes_ = output.nbytes();
  if (!CopiesResults()) {
    auto range = std::make_shared<ArenaRange>(ArenaRange::Allocate(connected, result->bytes_));
    if (auto data = ArenaRange::AsData(range, result->bytes_); data.has_value()) {
      SetData(output, *std::move(data));
      result->range_ = std::move(range);
      return result;
    }
  }
  // The task needs the memory too, and a shared Data would keep MLX from reusing it for later
  // results.
  result->own_memory_ = std::make_shared<OwnMemory>(result->bytes_);
  SetData(output,
          {result->own_memory_->buffer, [held = result->own_memory_](allocator::Buffer) {}});
  return result;
}

std::shared_ptr<ResultMemory> ResultMemory::Reuse(mx::array& output, const mx::array& input) {
  auto result = std::make_shared<ResultMemory>();
  output.copy_shared_buffer(input);
  result->reused_ = input.data_shared_ptr();
  result->reused_data_ = output.data<std::byte>();
  return result;
}

std::byte* ResultMemory::Begin() {
  if (range_ != nullptr) return range_->data();
  if (reused_ != nullptr) return reused_data_;
  running_ = ArenaRange::Allocate(connected_, bytes_);
  return running_.data();
}

void ResultMemory::End() {
  if (range_ != nullptr || reused_ != nullptr) return;
  const ArenaRange from = std::move(running_);
  if (bytes_ == 0) return;
  const auto began = std::chrono::steady_clock::now();
  std::memcpy(own_memory_->buffer.raw_ptr(), from.data(), bytes_);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
  GetCounters().results_copied.fetch_add(1, std::memory_order_relaxed);
  mlxcomm_note_copied_result(connected_->connection, bytes_,
                             static_cast<std::uint64_t>(took.count()));
}

bool CopiesResults() {
  static const bool asked_for = ReadVariable();
  return asked_for;
}

std::string WhyResultsAreCopied(const std::shared_ptr<Connected>& connected, bool reads) {
  if (CopiesResults()) return "MLXCOMM_RESULTS=copy is set";
  constexpr int kElements = 16 * 1024;  // 64 KiB: whole pages on every system.
  auto range = std::make_shared<ArenaRange>(
      ArenaRange::Allocate(connected, kElements * sizeof(std::int32_t)));
  auto* const elements = reinterpret_cast<std::int32_t*>(range->data());
  for (int i = 0; i < kElements; ++i) elements[i] = i;
  auto data = ArenaRange::AsData(range, kElements * sizeof(std::int32_t));
  if (!data.has_value()) {
    return "MLX cannot use the daemon's shared memory as a buffer on this machine (Metal cannot in "
           "virtual machines)";
  }
  if (!reads) return {};
  const mx::array shared = ArrayOf(*std::move(data), {kElements}, mx::int32);
  mx::array read = mx::array_equal(mx::negative(shared), mx::arange(0, -kElements, -1, mx::int32));
  return read.item<bool>() ? "" : "MLX's default device reads wrong bytes from the shared memory";
}

}  // namespace mlxcomm::graph
