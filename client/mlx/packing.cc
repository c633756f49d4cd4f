#include "client/mlx/packing.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "client/mlx/copy_in.h"
#include "client/mlx/process_end.h"
#include "client/mlx/result_memory.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

constexpr std::size_t kElementsMax = INT32_MAX;  // MLX's limit for an axis.

mx::array Concatenated(const std::vector<mx::array>& arrays, const mx::Stream& stream) {
  std::vector<mx::array> flat;
  flat.reserve(arrays.size());
  for (const mx::array& value : arrays) {
    flat.push_back(mx::reshape(value, {static_cast<int>(value.size())}, stream));
  }
  return mx::concatenate(flat, 0, stream);
}

std::size_t ElementsOf(const mx::Shape& shape) {
  std::size_t elements = 1;
  for (const int length : shape) elements *= static_cast<std::size_t>(length);
  return elements;
}

class PackPrimitive final : public mx::UnaryPrimitive {
 public:
  PackPrimitive(mx::Stream stream, std::shared_ptr<Connected> connected)
      : UnaryPrimitive(stream), connected_(std::move(connected)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& output) override {
    struct Chunk {
      const std::byte* data;
      std::size_t bytes;
    };
    // Keeps the arena until the task has run.
    auto use = std::make_shared<GroupUse>();
    GiveMemory(output);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    std::vector<Chunk> chunks;
    chunks.reserve(inputs.size());
    for (const mx::array& input : inputs) {
      encoder.set_input_array(input);
      encoder.add_temporary(input);
      chunks.push_back({input.data<std::byte>(), input.nbytes()});
    }
    encoder.set_output_array(output);
    encoder.dispatch([use, chunks = std::move(chunks), to = output.data<std::byte>()] {
      std::size_t begin = 0;
      for (const Chunk& chunk : chunks) {
        if (chunk.bytes > 0) CopyIn(to + begin, chunk.data, chunk.bytes);
        begin += chunk.bytes;
      }
    });
  }
  void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
    throw std::runtime_error("[mlxcomm] pack: expected a CPU stream");
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    std::size_t elements = 0;
    for (const mx::array& input : inputs) elements += input.size();
    return {mx::Shape{static_cast<int>(elements)}};
  }
  const char* name() const override { return "pack"; }

 private:
  // Arena memory if MLX accepts it and there is room, otherwise MLX's own memory, which the
  // operation then copies.
  void GiveMemory(mx::array& output) const {
    if (!CopiesResults()) {
      auto range =
          std::make_shared<ArenaRange>(ArenaRange::AllocateIfRoom(connected_, output.nbytes()));
      if (!range->is_empty()) {
        if (auto data = ArenaRange::AsData(range, output.nbytes()); data.has_value()) {
          SetData(output, *std::move(data));
          return;
        }
      }
    }
    output.set_data(mx::allocator::malloc(output.nbytes()));
  }

  std::shared_ptr<Connected> connected_;
};

}  // namespace

mx::array Pack(const std::vector<mx::array>& arrays, const std::shared_ptr<Connected>& connected) {
  const mx::Stream stream = mx::default_stream(mx::default_device());
  const bool is_traced = std::ranges::any_of(arrays, &mx::array::is_tracer);
  if (is_traced || stream.device != mx::Device::cpu) return Concatenated(arrays, stream);
  std::vector<mx::array> inputs;
  inputs.reserve(arrays.size());
  std::size_t elements = 0;
  for (const mx::array& value : arrays) {
    inputs.push_back(mx::contiguous(value, false, stream));
    elements += value.size();
  }
  return mx::array(mx::Shape{static_cast<int>(elements)}, arrays.at(0).dtype(),
                   std::make_shared<PackPrimitive>(stream, connected), std::move(inputs));
}

std::vector<mx::array> Unpack(const mx::array& packed, const std::vector<mx::Shape>& shapes) {
  mx::Shape ends;
  std::size_t elements = 0;
  for (const mx::Shape& shape : shapes) {
    elements += ElementsOf(shape);
    ends.push_back(static_cast<int>(elements));
  }
  if (!ends.empty()) ends.pop_back();  // The last part needs no split.
  std::vector<mx::array> arrays = mx::split(packed, ends, 0);
  for (std::size_t i = 0; i < shapes.size(); ++i) arrays[i] = mx::reshape(arrays[i], shapes[i]);
  return arrays;
}

std::vector<Bucket> DivideIntoBuckets(const std::vector<mx::array>& arrays, std::size_t bytes) {
  struct Open {
    std::size_t bucket;
    std::size_t elements;
  };
  std::vector<Bucket> buckets;
  std::map<mx::Dtype::Val, Open> open;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const mx::array& value = arrays[i];
    auto found = open.find(value.dtype().val());
    if (found != open.end() && found->second.elements + value.size() > kElementsMax) {
      open.erase(found);
      found = open.end();
    }
    if (found == open.end()) {
      found = open.emplace(value.dtype().val(), Open{buckets.size(), 0}).first;
      buckets.emplace_back();
    }
    buckets[found->second.bucket].push_back(i);
    found->second.elements += value.size();
    if (bytes > 0 && found->second.elements * value.itemsize() >= bytes) open.erase(found);
  }
  return buckets;
}

std::size_t CountCrossings(const std::vector<mx::array>& arrays) {
  using mx::array;
  const auto is_to_come = [](const array& value) {
    return value.status() == array::Status::unscheduled && value.has_primitive();
  };
  std::unordered_set<std::uintptr_t> seen;
  std::unordered_set<std::uintptr_t> handed_over;
  std::vector<array> left;
  const auto visit = [&](const array& value) {
    if (is_to_come(value) && seen.insert(value.id()).second) left.push_back(value);
  };
  for (const array& value : arrays) visit(value);
  while (!left.empty()) {
    array value = left.back();
    left.pop_back();
    for (const array& input : value.inputs()) {
      if (!is_to_come(input)) continue;
      if (input.primitive().stream() != value.primitive().stream()) handed_over.insert(input.id());
      visit(input);
    }
  }
  return handed_over.size();
}

}  // namespace mlxcomm::graph
