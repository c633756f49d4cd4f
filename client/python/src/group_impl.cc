#include "client/python/src/group_impl.h"

#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "client/lib/mlxcomm.hpp"
#include "client/python/src/interrupt.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/device.h"
#include "mlx/utils.h"

namespace mlxcomm::python {
namespace {

namespace mx = mlx::core;

const char* NameOf(mx::Dtype type) {
  switch (type.val()) {
    case mx::Dtype::Val::bool_: return "bool";
    case mx::Dtype::Val::uint8: return "uint8";
    case mx::Dtype::Val::uint16: return "uint16";
    case mx::Dtype::Val::uint32: return "uint32";
    case mx::Dtype::Val::uint64: return "uint64";
    case mx::Dtype::Val::int8: return "int8";
    case mx::Dtype::Val::int16: return "int16";
    case mx::Dtype::Val::int64: return "int64";
    case mx::Dtype::Val::float64: return "float64";
    case mx::Dtype::Val::complex64: return "complex64";
    default: return "of this array";
  }
}

mlxcomm_data_type TypeOf(const mx::array& value, const char* operation) {
  switch (value.dtype().val()) {
    case mx::Dtype::Val::float32: return MLXCOMM_FLOAT32;
    case mx::Dtype::Val::float16: return MLXCOMM_FLOAT16;
    case mx::Dtype::Val::bfloat16: return MLXCOMM_BFLOAT16;
    case mx::Dtype::Val::int32: return MLXCOMM_INT32;
    default:
      throw std::invalid_argument(
          std::string("[mlxcomm] ") + operation + ": dtype " + NameOf(value.dtype()) +
          " is not supported; expected float32, float16, bfloat16 or int32");
  }
}

[[noreturn]] void NotOffered(const char* operation) {
  throw std::runtime_error(std::string("[mlxcomm] ") + operation +
                           " is not offered; all_sum, all_gather, send and recv are");
}

// Before anything is scheduled: a latched failure is thrown, and a Ctrl-C of before, which
// Python has taken, is not meant for this operation. (Later it may be: the task must not
// forget one that came while it stood in the stream's queue.)
void BeginOperation(mlxcomm_group* group) {
  ForgetInterrupt();
  mlxcomm_error error;
  Check(mlxcomm_group_failure(group, &error), error);
}

// The output's memory in the arena. When that is full the evaluation raises
// RESOURCE_EXHAUSTED with the figures. The task holds it too: an evaluation that raises
// drops its arrays while tasks of theirs are under way.
std::shared_ptr<ArenaRange> PlaceOutput(mx::array& output,
                                        const std::shared_ptr<Connected>& connected) {
  auto range = std::make_shared<ArenaRange>(ArenaRange::Allocate(connected, output.nbytes()));
  output.set_data(ArenaRange::AsData(range, output.nbytes()));
  return range;
}

// The input as the daemon can read it, for the time of one operation.
class ArenaInput {
 public:
  ArenaInput(const std::shared_ptr<Connected>& connected, const void* data, std::uint64_t bytes) {
    if (bytes == 0) return;
    if (mlxcomm_in_arena(connected->connection, data, bytes) != 0) {
      GetCounters().inputs_in_arena.fetch_add(1, std::memory_order_relaxed);
      data_ = data;
      return;
    }
    GetCounters().inputs_copied.fetch_add(1, std::memory_order_relaxed);
    copy_ = ArenaRange::Allocate(connected, bytes);
    std::memcpy(copy_.data(), data, bytes);
    data_ = copy_.data();
  }
  const void* data() const { return data_; }

 private:
  ArenaRange copy_;
  const void* data_ = nullptr;
};

using Start = std::function<mlxcomm_code(mlxcomm_group*, const void*, std::uint64_t*,
                                         mlxcomm_error*)>;

// Submits and waits, on MLX's stream thread.
void RunOperation(const std::shared_ptr<JoinedGroup>& joined, const void* input,
                  std::uint64_t input_bytes, const Start& start) {
  GetCounters().operations.fetch_add(1, std::memory_order_relaxed);
  const ArenaInput arena_input(joined->connected, input, input_bytes);
  mlxcomm_error error;
  std::uint64_t ticket = 0;
  Check(start(joined->group, arena_input.data(), &ticket, &error), error);
  Check(mlxcomm_wait(joined->group, ticket, &error), error);
}

}  // namespace

Counters& GetCounters() {
  static Counters counters;
  return counters;
}

mx::Stream DaemonGroup::communication_stream(mx::StreamOrDevice s) {
  return mx::to_stream(s, mx::Device::cpu);
}

mlxcomm_code DaemonGroup::Barrier(mlxcomm_error& error) {
  ForgetInterrupt();
  std::uint64_t ticket = 0;
  const mlxcomm_code code = mlxcomm_barrier(joined_->group, 0, &ticket, &error);
  return code == MLXCOMM_OK ? mlxcomm_wait(joined_->group, ticket, &error) : code;
}

void DaemonGroup::all_sum(const array& input, array& output, Stream stream) {
  BeginOperation(handle());
  const mlxcomm_data_type type = TypeOf(input, "all_sum");
  auto& encoder = mx::cpu::get_command_encoder(stream);
  encoder.add_temporary(input);  // It may share the buffer that the output had.
  const std::shared_ptr<ArenaRange> out = PlaceOutput(output, joined_->connected);
  encoder.set_input_array(input);
  encoder.set_output_array(output);
  encoder.dispatch([joined = joined_, in = input.data<void>(), out, count = input.size(),
                    bytes = input.nbytes(), type] {
    RunOperation(joined, in, bytes,
                 [&](mlxcomm_group* group, const void* data, std::uint64_t* ticket,
                     mlxcomm_error* error) {
                   return mlxcomm_all_reduce(group, data, out->data(), count, type, MLXCOMM_SUM, 0, ticket,
                                             error);
                 });
  });
}

void DaemonGroup::all_gather(const array& input, array& output, Stream stream) {
  BeginOperation(handle());
  const mlxcomm_data_type type = TypeOf(input, "all_gather");
  auto& encoder = mx::cpu::get_command_encoder(stream);
  encoder.add_temporary(input);
  const std::shared_ptr<ArenaRange> out = PlaceOutput(output, joined_->connected);
  encoder.set_input_array(input);
  encoder.set_output_array(output);
  encoder.dispatch([joined = joined_, in = input.data<void>(), out, count = input.size(),
                    bytes = input.nbytes(), type] {
    RunOperation(joined, in, bytes,
                 [&](mlxcomm_group* group, const void* data, std::uint64_t* ticket,
                     mlxcomm_error* error) {
                   return mlxcomm_all_gather(group, data, out->data(), count, type, 0, ticket, error);
                 });
  });
}

void DaemonGroup::send(const array& input, int destination, Stream stream) {
  BeginOperation(handle());
  const mlxcomm_data_type type = TypeOf(input, "send");
  auto& encoder = mx::cpu::get_command_encoder(stream);
  encoder.set_input_array(input);
  encoder.dispatch([joined = joined_, in = input.data<void>(), count = input.size(),
                    bytes = input.nbytes(), type, destination] {
    RunOperation(joined, in, bytes,
                 [&](mlxcomm_group* group, const void* data, std::uint64_t* ticket,
                     mlxcomm_error* error) {
                   return mlxcomm_send(group, data, count, type,
                                       static_cast<std::uint32_t>(destination), 0, 0, ticket,
                                       error);
                 });
  });
}

void DaemonGroup::recv(array& output, int source, Stream stream) {
  BeginOperation(handle());
  const mlxcomm_data_type type = TypeOf(output, "recv");
  auto& encoder = mx::cpu::get_command_encoder(stream);
  const std::shared_ptr<ArenaRange> out = PlaceOutput(output, joined_->connected);
  encoder.set_output_array(output);
  encoder.dispatch([joined = joined_, out, count = output.size(), type, source] {
    RunOperation(joined, nullptr, 0,
                 [&](mlxcomm_group* group, const void*, std::uint64_t* ticket,
                     mlxcomm_error* error) {
                   return mlxcomm_recv(group, out->data(), count, type, static_cast<std::uint32_t>(source),
                                       0, 0, ticket, error);
                 });
  });
}

std::shared_ptr<mx::distributed::detail::GroupImpl> DaemonGroup::split(int, int) {
  NotOffered("split");
}
void DaemonGroup::all_max(const array&, array&, Stream) { NotOffered("all_max"); }
void DaemonGroup::all_min(const array&, array&, Stream) { NotOffered("all_min"); }
void DaemonGroup::sum_scatter(const array&, array&, Stream) { NotOffered("sum_scatter"); }

// MLX never calls these: operations on a group of one are the identity there.
namespace {
[[noreturn]] void Alone() {
  throw std::runtime_error("[mlxcomm] communication with oneself in a group of one rank");
}
}  // namespace
mx::Stream AloneGroup::communication_stream(mx::StreamOrDevice s) { return mx::to_stream(s); }
std::shared_ptr<mx::distributed::detail::GroupImpl> AloneGroup::split(int, int) {
  return std::make_shared<AloneGroup>();
}
void AloneGroup::all_sum(const array&, array&, Stream) { Alone(); }
void AloneGroup::all_gather(const array&, array&, Stream) { Alone(); }
void AloneGroup::send(const array&, int, Stream) { Alone(); }
void AloneGroup::recv(array&, int, Stream) { Alone(); }
void AloneGroup::all_max(const array&, array&, Stream) { Alone(); }
void AloneGroup::all_min(const array&, array&, Stream) { Alone(); }
void AloneGroup::sum_scatter(const array&, array&, Stream) { Alone(); }

}  // namespace mlxcomm::python
