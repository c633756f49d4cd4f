#include "tests/ground/expected_result.h"

#include <cmath>

#include "tests/ground/half.h"

namespace mlxcomm::oracle {
namespace {

// By the real part, then the imaginary one.
bool IsBefore(Value a, Value b) {
  return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
}

// On bool, sum and max mean or; product and min mean and.
Value Apply(DataType type, ReduceOperator op, Value a, Value b) {
  const bool logical = type == DataType::kBool;
  const auto bits_a = static_cast<std::int64_t>(a.real());
  const auto bits_b = static_cast<std::int64_t>(b.real());
  switch (op) {
    case ReduceOperator::kNone: return b;
    case ReduceOperator::kMean:
    case ReduceOperator::kSum: return logical ? Value(static_cast<double>(bits_a | bits_b)) : a + b;
    case ReduceOperator::kProduct: return a * b;
    case ReduceOperator::kMin: return IsBefore(b, a) ? b : a;
    case ReduceOperator::kMax: return IsBefore(a, b) ? b : a;
    case ReduceOperator::kAnd: return static_cast<double>(bits_a & bits_b);
    case ReduceOperator::kOr: return static_cast<double>(bits_a | bits_b);
  }
  return 0;
}

// Element i of `rank`'s input.
Value Contribution(DataType type, ReduceOperator op, std::uint32_t rank, std::uint64_t i,
                   std::uint64_t salt) {
  const std::uint64_t mixed = (rank * 2654435761u + i * 40503u + salt % 65521 * 977u) >> 3;
  const double imaginary = type == DataType::kComplex64 ? static_cast<double>(mixed / 5 % 2) : 0;
  if (op == ReduceOperator::kProduct) {
    return {mixed % 7 == 0 && rank < 6 ? 2.0 : 1.0, 0};
  }
  if (type == DataType::kBool) return static_cast<double>(mixed % 2);
  return {static_cast<double>(mixed % 4), imaginary};
}

}  // namespace

void Encode(DataType type, Value value, std::byte* to) {
  const double real = value.real();
  const auto whole = std::isfinite(real) ? static_cast<std::int64_t>(real) : 0;
  switch (type) {
    case DataType::kBool: return Put<std::uint8_t>(to, real != 0 ? 1 : 0);
    case DataType::kInt8:
    case DataType::kUint8: return Put(to, static_cast<std::uint8_t>(whole));
    case DataType::kInt16:
    case DataType::kUint16: return Put(to, static_cast<std::uint16_t>(whole));
    case DataType::kInt32:
    case DataType::kUint32: return Put(to, static_cast<std::uint32_t>(whole));
    case DataType::kInt64:
    case DataType::kUint64: return Put(to, whole);
    case DataType::kFloat16: return Put(to, reduce::Float16FromFloat(static_cast<float>(real)));
    case DataType::kBfloat16: return Put(to, reduce::Bfloat16FromFloat(static_cast<float>(real)));
    case DataType::kFloat32: return Put(to, static_cast<float>(real));
    case DataType::kFloat64: return Put(to, real);
    case DataType::kComplex64:
      Put(to, static_cast<float>(real));
      return Put(to + 4, static_cast<float>(value.imag()));
  }
}

Value Decode(DataType type, const std::byte* from) {
  switch (type) {
    case DataType::kBool:
    case DataType::kUint8: return static_cast<double>(Get<std::uint8_t>(from));
    case DataType::kInt8: return static_cast<double>(Get<std::int8_t>(from));
    case DataType::kInt16: return static_cast<double>(Get<std::int16_t>(from));
    case DataType::kUint16: return static_cast<double>(Get<std::uint16_t>(from));
    case DataType::kInt32: return static_cast<double>(Get<std::int32_t>(from));
    case DataType::kUint32: return static_cast<double>(Get<std::uint32_t>(from));
    case DataType::kInt64: return static_cast<double>(Get<std::int64_t>(from));
    case DataType::kUint64: return static_cast<double>(Get<std::uint64_t>(from));
    case DataType::kFloat16:
      return static_cast<double>(reduce::FloatFromFloat16(Get<std::uint16_t>(from)));
    case DataType::kBfloat16:
      return static_cast<double>(reduce::FloatFromBfloat16(Get<std::uint16_t>(from)));
    case DataType::kFloat32: return static_cast<double>(Get<float>(from));
    case DataType::kFloat64: return Get<double>(from);
    case DataType::kComplex64:
      return {static_cast<double>(Get<float>(from)), static_cast<double>(Get<float>(from + 4))};
  }
  return 0;
}

Bytes Input(DataType type, ReduceOperator op, std::uint32_t rank, std::uint64_t elements,
            std::uint64_t salt) {
  const std::size_t width = DataTypeBytes(type);
  Bytes bytes(elements * width);
  for (std::uint64_t i = 0; i < elements; ++i) {
    Encode(type, Contribution(type, op, rank, i, salt), bytes.data() + i * width);
  }
  return bytes;
}

OperationShape Operation::ShapeFor(std::uint32_t rank) const {
  OperationShape shape;
  const std::vector<std::uint64_t> none;
  (void)ShapeOf({kind, count, rank, size, root, tables.empty() ? none : tables[rank]}, shape);
  return shape;
}

void AddTables(Operation& o) {
  if (!HasCounts(o.kind)) return;
  o.tables.assign(o.size, std::vector<std::uint64_t>(CountsLength(o.kind, o.size)));
  for (std::uint32_t from = 0; from < o.size; ++from) {
    for (std::uint32_t to = 0; to < o.size; ++to) {
      if (CountsPerRank(o.kind) == 1) {
        o.tables[to][from] = o.count * (from % 3);
      } else {
        const std::uint64_t count = o.count * ((from * 2 + to) % 3);
        o.tables[from][to] = count;
        o.tables[to][o.size + from] = count;
      }
    }
  }
  o.count = 0;
}

Origin OriginOf(const Operation& o, std::uint32_t rank, std::uint64_t i) {
  const auto packed = [&](auto length_of) {
    Origin origin;
    while (i >= length_of(origin.rank)) i -= length_of(origin.rank++);
    origin.element = i;
    return origin;
  };
  switch (o.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce: return {true, 0, i};
    case OperationKind::kReduceScatter: return {true, 0, rank * o.count + i};
    case OperationKind::kBroadcast:
    case OperationKind::kReceive: return {false, o.root, i};
    case OperationKind::kScatter: return {false, o.root, rank * o.count + i};
    case OperationKind::kAllGather:
    case OperationKind::kGather: return packed([&](std::uint32_t) { return o.count; });
    case OperationKind::kAllGatherV:
      return packed([&](std::uint32_t from) { return o.tables[rank][from]; });
    case OperationKind::kAllToAll: {
      Origin origin = packed([&](std::uint32_t) { return o.count; });
      origin.element += rank * o.count;
      return origin;
    }
    case OperationKind::kAllToAllV: {
      Origin origin = packed([&](std::uint32_t from) { return o.tables[rank][o.size + from]; });
      for (std::uint32_t to = 0; to < rank; ++to) origin.element += o.tables[origin.rank][to];
      return origin;
    }
    default: return {};
  }
}

std::int64_t FirstWrong(const Operation& o, std::uint32_t rank, const Bytes& output) {
  const std::size_t width = DataTypeBytes(o.type);
  const OperationShape shape = o.ShapeFor(rank);
  if (output.size() != shape.output_elements * width) return 0;
  const double rounding = o.op != ReduceOperator::kMean   ? 0
                          : o.type == DataType::kBfloat16 ? 0x1p-7
                          : o.type == DataType::kFloat16  ? 0x1p-10
                                                          : 0x1p-22;
  for (std::uint64_t i = 0; i < shape.output_elements; ++i) {
    const Origin origin = OriginOf(o, rank, i);
    Value wanted = Contribution(o.type, o.op, origin.rank, origin.element, o.salt);
    for (std::uint32_t r = 1; origin.all_ranks && r < o.size; ++r) {
      wanted = Apply(o.type, o.op, wanted, Contribution(o.type, o.op, r, origin.element, o.salt));
    }
    if (o.op == ReduceOperator::kMean) wanted /= static_cast<double>(o.size);
    std::byte exact[8] = {};
    if (rounding == 0) Encode(o.type, wanted, exact);
    const Value expected = rounding == 0 ? Decode(o.type, exact) : wanted;
    const Value got = Decode(o.type, output.data() + i * width);
    if (std::abs(got - expected) > rounding * std::abs(expected)) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace mlxcomm::oracle
