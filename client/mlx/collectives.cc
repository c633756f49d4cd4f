#include "client/mlx/collectives.h"

#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "client/mlx/collective_primitive.h"
#include "client/mlx/packing.h"
#include "mlx/ops.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

[[noreturn]] void Invalid(const std::string& name, const std::string& expected,
                          const std::string& got) {
  throw std::invalid_argument(WhyWrong(name, expected, got));
}

std::string Written(const mx::Shape& shape) {
  std::ostringstream text;
  text << "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text << (i == 0 ? "" : ", ") << shape[i];
  text << ")";
  return text.str();
}

void CheckBlocks(const mx::Shape& shape, std::uint32_t size) {
  if (shape.empty() || shape[0] % static_cast<int>(size) != 0) {
    Invalid("x", "a leading axis divisible by " + std::to_string(size) + " ranks",
            "shape " + Written(shape));
  }
}

void CheckRows(const char* argument, const std::vector<std::uint64_t>& rows, const Call& call) {
  if (rows.size() != call.size()) {
    Invalid(argument, "one for each of " + std::to_string(call.size()) + " ranks",
            std::to_string(rows.size()));
  }
  std::uint64_t total = 0;
  for (const std::uint64_t count : rows) {
    total += count;
    if (count > INT32_MAX || total > INT32_MAX) {
      Invalid(argument, "counts of rows with a sum below 2^31", std::to_string(total));
    }
  }
}

int Total(const std::vector<std::uint64_t>& rows) {
  return static_cast<int>(std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}));
}

mx::Shape WithRows(mx::Shape shape, std::int64_t rows) {
  if (rows > INT32_MAX) {
    Invalid("x", "a result of fewer than 2^31 rows, MLX's limit", std::to_string(rows));
  }
  if (shape.empty()) return mx::Shape{static_cast<int>(rows)};
  shape[0] = static_cast<int>(rows);
  return shape;
}

mx::array Build(const mx::Shape& shape, mx::Dtype type, Operation operation,
                const std::optional<mx::array>& input, const Call& call) {
  const mx::Stream stream = mx::to_stream(call.stream, mx::Device::cpu);
  if (stream.device != mx::Device::cpu) {
    Invalid("stream", "a CPU stream, on which communication runs", "a GPU stream");
  }
  operation.timeout_ns = call.timeout_ns;
  if (ChecksCalls()) {
    operation.checked =
        NextCall(call.group->call_numbers, mlxcomm_group_name(call.group->group), call.from);
  }
  std::vector<mx::array> inputs;
  if (input.has_value()) {
    inputs.push_back(operation.Reads(call.rank()) ? mx::contiguous(*input, false, stream) : *input);
  }
  if (call.after.has_value()) inputs.push_back(*call.after);
  return mx::array(
      shape, type,
      std::make_shared<CollectivePrimitive>(stream, call.group, std::move(operation), type),
      std::move(inputs));
}

void CheckPeer(const Operation& operation, const Call& call) {
  const std::string wrong = WhyWrongPeer(operation.kind, operation.root, call.rank(), call.size());
  if (!wrong.empty()) throw std::invalid_argument(wrong);
}

// Checks the tables of counts against the rows of x.
void CheckCounts(const mx::Shape& shape, const Operation& operation, const Call& call) {
  const std::vector<std::uint64_t>& sent = operation.send_rows;
  const std::vector<std::uint64_t>& received = operation.receive_rows;
  const std::string at = "[" + std::to_string(call.rank()) + "]";
  const bool both = CountsPerRank(operation.kind) == 2;
  CheckRows(both ? "send_counts" : "counts", sent, call);
  if (both) CheckRows("receive_counts", received, call);
  if (shape.empty()) Invalid("x", "an array with a leading axis", "shape ()");
  const std::uint64_t mine = sent[call.rank()];
  const int rows = both ? Total(sent) : static_cast<int>(mine);
  if (rows != shape[0]) {
    Invalid(both ? "send_counts" : "counts" + at,
            std::to_string(shape[0]) + (both ? " in total, the rows of x" : ", the rows of x"),
            std::to_string(rows));
  }
  if (both && mine != received[call.rank()]) {
    Invalid("receive_counts" + at,
            std::to_string(mine) + " as in send_counts" + at + " (the rows that this rank keeps)",
            std::to_string(received[call.rank()]));
  }
}

}  // namespace

mlxcomm_operator OperatorNamed(const std::string& name) {
  const ReduceOperatorRow* const row = kReduceOperators.FindNamed(name);
  if (row != nullptr && row->value != ReduceOperator::kNone) {
    return static_cast<mlxcomm_operator>(row->value);
  }
  Invalid("op", "one of " + kReduceOperators.Names(", "), '"' + name + '"');
}

mx::Shape ResultShape(const JoinedGroup& group, const Operation& operation,
                      const mx::Shape& input) {
  const OperationRow& row = RowOf(operation.kind);
  const auto size = static_cast<std::int64_t>(group.size());
  const std::int64_t leading = input.empty() ? 1 : input[0];
  const bool divides = row.input.extent == Extent::kBlocks;
  if (divides) CheckBlocks(input, group.size());
  // Ranks without a result have no rows; after a reduce they have zeros.
  const auto rows = [&](std::int64_t number) {
    return WithRows(input, operation.Writes(group.rank()) ? number : 0);
  };
  switch (row.output.extent) {
    case Extent::kBlocks: return divides ? input : rows(leading * size);
    case Extent::kCount: return divides ? WithRows(input, leading / size) : input;
    case Extent::kFirstCounts: return rows(Total(operation.send_rows));
    case Extent::kSecondCounts: return rows(Total(operation.receive_rows));
    case Extent::kOwnCount:
      return rows(static_cast<std::int64_t>(operation.send_rows[group.rank()]));
    case Extent::kNothing: break;
  }
  return input;
}

mx::array Operate(const mx::array& x, Operation operation, const Call& call) {
  const OperationRow& row = RowOf(operation.kind);
  const bool divides = row.input.extent == Extent::kBlocks;
  if (Reduces(operation.kind)) CheckOperator(x.dtype(), operation.op);
  CheckPeer(operation, call);
  if (divides) CheckBlocks(x.shape(), call.size());
  if (HasCounts(operation.kind)) CheckCounts(x.shape(), operation, call);
  if (call.size() == 1) {
    const bool adds_axis = row.output.extent == Extent::kBlocks && !divides && x.ndim() == 0;
    return adds_axis ? mx::expand_dims(x, 0, call.stream) : x;
  }
  const mx::Shape shape = ResultShape(*call.group, operation, x.shape());
  if (divides && IsFromRoot(operation.kind)) return ScatterTo(shape, x, operation.root, call);
  return Build(shape, x.dtype(), std::move(operation), x, call);
}

std::vector<mx::array> AllReduceMany(const std::vector<mx::array>& arrays, mlxcomm_operator op,
                                     std::size_t bucket_bytes, const Call& call) {
  for (const mx::array& x : arrays) CheckOperator(x.dtype(), op);
  std::vector<mx::array> results = arrays;
  if (call.size() == 1) return results;
  for (const Bucket& bucket : DivideIntoBuckets(arrays, bucket_bytes)) {
    if (bucket.size() == 1) {
      results[bucket[0]] =
          Operate(arrays[bucket[0]], {.kind = OperationKind::kAllReduce, .op = op}, call);
      continue;
    }
    std::vector<mx::array> packed;
    std::vector<mx::Shape> shapes;
    for (const std::size_t i : bucket) {
      packed.push_back(arrays[i]);
      shapes.push_back(arrays[i].shape());
    }
    // Gradients of min and max need the input.
    const bool consumes = op != MLXCOMM_MIN && op != MLXCOMM_MAX;
    const mx::array reduced =
        Operate(Pack(packed, call.group->connected),
                {.kind = OperationKind::kAllReduce, .op = op, .consumes_input = consumes}, call);
    const std::vector<mx::array> unpacked = Unpack(reduced, shapes);
    for (std::size_t i = 0; i < bucket.size(); ++i) results[bucket[i]] = unpacked[i];
  }
  return results;
}

mx::array ScatterTo(const mx::Shape& shape, const mx::array& x, std::uint32_t root,
                    const Call& call) {
  return Build(shape, x.dtype(), {.kind = OperationKind::kScatter, .root = root, .shape = shape}, x,
               call);
}

mx::array Receive(const mx::Shape& shape, mx::Dtype type, std::uint32_t source, std::uint32_t tag,
                  const std::optional<mx::array>& after, const Call& call) {
  const Operation operation{
      .kind = OperationKind::kReceive, .root = source, .tag = tag, .shape = shape};
  std::uint64_t elements = 1;  // Capped at kElementsMax + 1.
  for (const int length : shape) {
    if (length < 0) Invalid("shape", "lengths of 0 or more", Written(shape));
    const auto times = static_cast<std::uint64_t>(length);
    const bool is_more = times != 0 && elements > kElementsMax / times;
    elements = is_more ? kElementsMax + 1 : elements * times;
  }
  if (elements > kElementsMax) Invalid("shape", "up to 2^56 elements", Written(shape));
  CheckPeer(operation, call);
  return Build(shape, type, operation, after, call);
}

}  // namespace mlxcomm::graph
