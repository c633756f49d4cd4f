#include "tests/ground/checked_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace mlxcomm::ground {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xa5};

}  // namespace

CheckedOperation::CheckedOperation(Connection& connection, Group& group,
                                   oracle::Operation operation)
    : operation_(std::move(operation)),
      rank_(group.rank()),
      is_large_(operation_.type == DataType::kUint64 && operation_.count * 8 > kSmallBytesMax) {
  oracle::AddTables(operation_);
  const std::size_t width = DataTypeBytes(operation_.type);
  const OperationShape shape = operation_.ShapeFor(rank_);
  bytes_ = shape.output_elements * width;
  in_.emplace(connection, std::max<std::uint64_t>(shape.input_elements * width, 1));
  out_.emplace(connection, bytes_ + kGuardBytes);
  Fill(shape.input_elements);
  std::memset(out_->data(), static_cast<int>(kGuard), bytes_ + kGuardBytes);
  ticket_.emplace(Begin(group));
}

std::uint64_t CheckedOperation::Finish() {
  ticket_->Wait();
  const std::int64_t wrong = FirstWrong();
  Expect(wrong < 0, Described() + ": element " + std::to_string(wrong) + " is wrong");
  const auto* const out = out_->as<std::byte>();
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    Expect(out[bytes_ + i] == kGuard,
           Described() + ": byte " + std::to_string(i) + " behind the result was written");
  }
  return bytes_;
}

void CheckedOperation::Fill(std::uint64_t elements) {
  if (is_large_) {
    auto* const in = in_->as<std::uint64_t>();
    for (std::uint64_t i = 0; i < elements; ++i) in[i] = Word(operation_.salt, rank_, i);
    return;
  }
  const oracle::Bytes input =
      oracle::Input(operation_.type, operation_.op, rank_, elements, operation_.salt);
  if (!input.empty()) std::memcpy(in_->data(), input.data(), input.size());
}

std::int64_t CheckedOperation::FirstWrong() const {
  const auto* const out = out_->as<std::byte>();
  const oracle::Operation& o = operation_;
  if (!is_large_) return oracle::FirstWrong(o, rank_, oracle::Bytes(out, out + bytes_));
  for (std::uint64_t i = 0; i < bytes_ / 8; ++i) {
    const oracle::Origin origin = oracle::OriginOf(o, rank_, i);
    const std::uint64_t expected = origin.all_ranks ? SumOfWords(o.salt, o.size, origin.element)
                                                    : Word(o.salt, origin.rank, origin.element);
    if (oracle::Get<std::uint64_t>(out + i * 8) != expected) return static_cast<std::int64_t>(i);
  }
  return -1;
}

Ticket CheckedOperation::Begin(Group& group) const {
  const oracle::Operation& o = operation_;
  const std::uint64_t* const table = o.tables.empty() ? nullptr : o.tables[rank_].data();
  mlxcomm_request request{};
  request.kind = static_cast<mlxcomm_kind>(o.kind);
  request.type = static_cast<mlxcomm_data_type>(o.type);
  request.op = static_cast<mlxcomm_operator>(o.op);
  request.peer = o.root;
  request.input = in_->data();
  request.output = out_->data();
  request.count = o.count;
  request.counts = table;
  request.receive_counts = table == nullptr ? nullptr : table + o.size;
  return group.Submit(request);
}

std::string CheckedOperation::Described() const {
  const oracle::Operation& o = operation_;
  return "rank " + std::to_string(rank_) + ": " + OperationKindName(o.kind) + " " +
         ReduceOperatorName(o.op) + " " + DataTypeName(o.type) + "[" + std::to_string(o.count) +
         "] of " + std::to_string(o.size) + " ranks, root " + std::to_string(o.root) + ", salt " +
         std::to_string(o.salt);
}

std::uint64_t ExchangeMessages(Connection& connection, Group& group, std::uint64_t words,
                               std::uint32_t tags, std::uint64_t salt) {
  struct Received {
    const std::uint64_t* data;
    std::uint32_t from;
    std::uint32_t tag;
  };
  std::vector<Buffer> buffers;
  std::vector<Received> received;
  std::vector<Ticket> tickets;  // Destroyed before the buffers.
  for (std::uint32_t peer = 0; peer < group.size(); ++peer) {
    for (std::uint32_t tag = 0; peer != group.rank() && tag < tags; ++tag) {
      buffers.emplace_back(connection, words * 8);
      auto* const data = buffers.back().as<std::uint64_t>();
      for (std::uint64_t i = 0; i < words; ++i) data[i] = Word(salt + tag, group.rank(), i);
      tickets.push_back(group.SendAsync(data, words, MLXCOMM_UINT64, peer, tag));
    }
  }
  for (std::uint32_t peer = 0; peer < group.size(); ++peer) {
    for (std::uint32_t tag = tags; peer != group.rank() && tag-- > 0;) {
      buffers.emplace_back(connection, words * 8);
      auto* const data = buffers.back().as<std::uint64_t>();
      tickets.push_back(group.ReceiveAsync(data, words, MLXCOMM_UINT64, peer, tag));
      received.push_back({data, peer, tag});
    }
  }
  for (Ticket& ticket : tickets) ticket.Wait();
  for (const Received& one : received) {
    for (std::uint64_t i = 0; i < words; ++i) {
      if (one.data[i] == Word(salt + one.tag, one.from, i)) continue;
      throw WrongValue("message from rank " + std::to_string(one.from) + ", tag " +
                       std::to_string(one.tag) + ": word " + std::to_string(i) + " is wrong");
    }
  }
  return tickets.size();
}

}  // namespace mlxcomm::ground
