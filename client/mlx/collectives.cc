#include "client/mlx/collectives.h"

#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "client/mlx/collective_primitive.h"
#include "client/mlx/packing.h"
#include "mlx/ops.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

template <typename... Words>
[[noreturn]] void Invalid(const char* name, const Words&... words) {
  std::ostringstream text;
  text << "[mlxcomm] " << name << ": ";
  (text << ... << words);
  throw std::invalid_argument(text.str());
}

std::string Written(const mx::Shape& shape) {
  std::ostringstream text;
  text << "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text << (i == 0 ? "" : ", ") << shape[i];
  text << ")";
  return text.str();
}

void CheckRank(const char* name, const char* argument, std::uint32_t rank, const Call& call) {
  if (rank >= call.size()) {
    Invalid(name, argument, " ", rank, ": expected a rank below the group's size ", call.size());
  }
}

// The leading axis as so many blocks as there are ranks.
void CheckBlocks(const char* name, const mx::Shape& shape, std::uint32_t size) {
  if (shape.empty() || shape[0] % static_cast<int>(size) != 0) {
    Invalid(name, "shape ", Written(shape), ": expected a leading axis that ", size,
            " ranks divide");
  }
}

void CheckRows(const char* name, const char* argument, const std::vector<std::uint64_t>& rows,
               const Call& call) {
  if (rows.size() != call.size()) {
    Invalid(name, argument, ": expected one for each of ", call.size(), " ranks, got ",
            rows.size());
  }
  std::uint64_t total = 0;
  for (const std::uint64_t count : rows) {
    total += count;
    if (count > INT32_MAX || total > INT32_MAX) {
      Invalid(name, argument, ": expected counts of rows, together below 2^31");
    }
  }
}

int Total(const std::vector<std::uint64_t>& rows) {
  return static_cast<int>(std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}));
}

mx::Shape WithRows(mx::Shape shape, std::int64_t rows) {
  if (rows > INT32_MAX) {
    throw std::invalid_argument("[mlxcomm] a leading axis of " + std::to_string(rows) +
                                ": MLX has room for 2^31 - 1");
  }
  if (shape.empty()) return mx::Shape{static_cast<int>(rows)};
  shape[0] = static_cast<int>(rows);
  return shape;
}

mx::array Build(const mx::Shape& shape, mx::Dtype type, Operation operation,
                const std::optional<mx::array>& input, const Call& call) {
  const mx::Stream stream = mx::to_stream(call.stream, mx::Device::cpu);
  if (stream.device != mx::Device::cpu) {
    Invalid(NameOf(operation.kind), "communication runs on a CPU stream: pass one, or none");
  }
  operation.timeout_ns = call.timeout_ns;
  std::vector<mx::array> inputs;
  if (input.has_value()) {
    const bool reads = operation.Reads(call.rank());
    inputs.push_back(reads ? mx::contiguous(*input, false, stream) : *input);
  }
  if (call.after.has_value()) inputs.push_back(*call.after);
  return mx::array(
      shape, type,
      std::make_shared<CollectivePrimitive>(stream, call.group, std::move(operation), type),
      std::move(inputs));
}

mx::array BuildLike(const mx::array& x, Operation operation, const Call& call) {
  const mx::Shape shape = ResultShape(*call.group, operation, x.shape());
  return Build(shape, x.dtype(), std::move(operation), x, call);
}

}  // namespace

mlxcomm_operator OperatorNamed(const std::string& name) {
  for (const mlxcomm_operator op : {MLXCOMM_SUM, MLXCOMM_PROD, MLXCOMM_MIN, MLXCOMM_MAX,
                                    MLXCOMM_AND, MLXCOMM_OR, MLXCOMM_MEAN}) {
    if (name == NameOf(op)) return op;
  }
  throw std::invalid_argument("[mlxcomm] op \"" + name +
                              "\": expected sum, prod, min, max, and, or, mean");
}

mx::Shape ResultShape(const JoinedGroup& group, const Operation& operation,
                      const mx::Shape& input) {
  const auto size = static_cast<std::int64_t>(group.size());
  const std::int64_t leading = input.empty() ? 1 : input[0];
  switch (operation.kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter:
      CheckBlocks(NameOf(operation.kind), input, group.size());
      return WithRows(input, leading / size);
    case Kind::kAllGather: return WithRows(input, leading * size);
    case Kind::kGather: return WithRows(input, group.rank() == operation.root ? leading * size : 0);
    case Kind::kAllGatherV: return WithRows(input, Total(operation.send_rows));
    case Kind::kAllToAllV: return WithRows(input, Total(operation.receive_rows));
    case Kind::kAllToAll: CheckBlocks(NameOf(operation.kind), input, group.size()); return input;
    default: return input;
  }
}

mx::array AllReduce(const mx::array& x, mlxcomm_operator op, const Call& call) {
  CheckOperator("all_reduce", x.dtype(), op);
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kAllReduce, .op = op}, call);
}

std::vector<mx::array> AllReduceMany(const std::vector<mx::array>& arrays, mlxcomm_operator op,
                                     std::size_t bucket_bytes, const Call& call) {
  for (const mx::array& x : arrays) CheckOperator("all_reduce", x.dtype(), op);
  std::vector<mx::array> results = arrays;
  if (call.size() == 1) return results;
  for (const Bucket& bucket : DivideIntoBuckets(arrays, bucket_bytes)) {
    if (bucket.size() == 1) {
      results[bucket[0]] = AllReduce(arrays[bucket[0]], op, call);
      continue;
    }
    std::vector<mx::array> packed;
    std::vector<mx::Shape> shapes;
    for (const std::size_t i : bucket) {
      packed.push_back(arrays[i]);
      shapes.push_back(arrays[i].shape());
    }
    // Gradients of min and max look at the input.
    const bool consumes = op != MLXCOMM_MIN && op != MLXCOMM_MAX;
    const mx::array reduced =
        BuildLike(Pack(packed, call.group->connected),
                  {.kind = Kind::kAllReduce, .op = op, .consumes_input = consumes}, call);
    const std::vector<mx::array> unpacked = Unpack(reduced, shapes);
    for (std::size_t i = 0; i < bucket.size(); ++i) results[bucket[i]] = unpacked[i];
  }
  return results;
}

mx::array Reduce(const mx::array& x, std::uint32_t root, mlxcomm_operator op, const Call& call) {
  CheckOperator("reduce", x.dtype(), op);
  CheckRank("reduce", "root", root, call);
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kReduce, .op = op, .root = root}, call);
}

mx::array ReduceScatter(const mx::array& x, mlxcomm_operator op, const Call& call) {
  CheckOperator("reduce_scatter", x.dtype(), op);
  CheckBlocks("reduce_scatter", x.shape(), call.size());
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kReduceScatter, .op = op}, call);
}

mx::array Broadcast(const mx::array& x, std::uint32_t root, const Call& call) {
  CheckRank("broadcast", "root", root, call);
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kBroadcast, .root = root}, call);
}

mx::array AllGather(const mx::array& x, const Call& call) {
  if (call.size() == 1) return x.ndim() == 0 ? mx::expand_dims(x, 0, call.stream) : x;
  return BuildLike(x, {.kind = Kind::kAllGather}, call);
}

mx::array AllGatherV(const mx::array& x, const std::vector<std::uint64_t>& rows, const Call& call) {
  CheckRows("all_gather_v", "counts", rows, call);
  if (x.ndim() == 0 || static_cast<std::uint64_t>(x.shape(0)) != rows[call.rank()]) {
    Invalid("all_gather_v", "shape ", Written(x.shape()), ": expected counts[", call.rank(),
            "] = ", rows[call.rank()], " rows on rank ", call.rank());
  }
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kAllGatherV, .send_rows = rows}, call);
}

mx::array Gather(const mx::array& x, std::uint32_t root, const Call& call) {
  CheckRank("gather", "root", root, call);
  if (call.size() == 1) return x.ndim() == 0 ? mx::expand_dims(x, 0, call.stream) : x;
  return BuildLike(x, {.kind = Kind::kGather, .root = root}, call);
}

mx::array Scatter(const mx::array& x, std::uint32_t root, const Call& call) {
  CheckRank("scatter", "root", root, call);
  CheckBlocks("scatter", x.shape(), call.size());
  if (call.size() == 1) return x;
  const Operation operation{.kind = Kind::kScatter, .root = root};
  return ScatterTo(ResultShape(*call.group, operation, x.shape()), x, root, call);
}

mx::array ScatterTo(const mx::Shape& shape, const mx::array& x, std::uint32_t root,
                    const Call& call) {
  return Build(shape, x.dtype(), {.kind = Kind::kScatter, .root = root, .shape = shape}, x, call);
}

mx::array AllToAll(const mx::array& x, const Call& call) {
  CheckBlocks("all_to_all", x.shape(), call.size());
  if (call.size() == 1) return x;
  return BuildLike(x, {.kind = Kind::kAllToAll}, call);
}

mx::array AllToAllV(const mx::array& x, const std::vector<std::uint64_t>& send_rows,
                    const std::vector<std::uint64_t>& receive_rows, const Call& call) {
  CheckRows("all_to_all_v", "send_counts", send_rows, call);
  CheckRows("all_to_all_v", "receive_counts", receive_rows, call);
  if (x.ndim() == 0 || x.shape(0) != Total(send_rows)) {
    Invalid("all_to_all_v", "shape ", Written(x.shape()), ": expected ", Total(send_rows),
            " rows, the sum of send_counts");
  }
  if (send_rows[call.rank()] != receive_rows[call.rank()]) {
    Invalid("all_to_all_v", "send_counts[", call.rank(), "] = ", send_rows[call.rank()],
            ", receive_counts[", call.rank(), "] = ", receive_rows[call.rank()],
            ": expected the same, what rank ", call.rank(), " keeps");
  }
  if (call.size() == 1) return x;
  return BuildLike(
      x, {.kind = Kind::kAllToAllV, .send_rows = send_rows, .receive_rows = receive_rows}, call);
}

mx::array Send(const mx::array& x, std::uint32_t destination, std::uint32_t tag, const Call& call) {
  CheckRank("send", "destination", destination, call);
  if (destination == call.rank()) Invalid("send", "destination ", destination, " is this rank");
  return BuildLike(x, {.kind = Kind::kSend, .root = destination, .tag = tag}, call);
}

mx::array Receive(const mx::Shape& shape, mx::Dtype type, std::uint32_t source, std::uint32_t tag,
                  const std::optional<mx::array>& after, const Call& call) {
  CheckRank("recv", "source", source, call);
  if (source == call.rank()) Invalid("recv", "source ", source, " is this rank");
  for (const int length : shape) {
    if (length < 0) Invalid("recv", "shape ", Written(shape), ": expected lengths of 0 or more");
  }
  return Build(shape, type, {.kind = Kind::kReceive, .root = source, .tag = tag, .shape = shape},
               after, call);
}

}  // namespace mlxcomm::graph
