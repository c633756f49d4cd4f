#include "client/mpi/communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "client/lib/interrupt.h"
#include "client/lib/pending_sends.h"

namespace mlxcomm::mpi {
namespace {

using client::UnderWay;

// memcpy does not allow null, which is valid for no bytes.
void Copy(void* to, const void* from, std::uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

void Communicator::AllReduce(const void* input, void* output, std::uint64_t count, const Type& type,
                             const Operator& op, MPI_Datatype handle) {
  if (!group_) return Copy(output, input, count * type.bytes);
  const UnderWay under_way;
  if (const std::optional<mlxcomm_operator> known = op.For(type.type)) {
    return Reduce(input, output, count, type, *known);
  }
  Fold(input, output, count, type, op.function, handle);
}

void Communicator::Reduce(const void* input, void* output, std::uint64_t count, const Type& type,
                          mlxcomm_operator op) {
  const std::uint64_t bytes = count * type.bytes;
  if (bytes == 0) return group_->AllReduce(nullptr, nullptr, 0, type.type, op);
  const Buffer staged(*connection_, bytes);
  Copy(staged.data(), input, bytes);
  group_->AllReduce(staged.data(), staged.data(), count, type.type, op);
  Copy(output, staged.data(), bytes);
}

void Communicator::Fold(const void* input, void* output, std::uint64_t count, const Type& type,
                        MPI_User_function* function, MPI_Datatype handle) {
  const std::uint64_t bytes = count * type.bytes;
  const Buffer blocks(*connection_, std::max<std::uint64_t>(1, bytes * (size() + 1)));
  std::byte* const gathered = blocks.as<std::byte>();
  std::byte* const own = gathered + bytes * size();
  Copy(own, input, bytes);
  group_->AllGather(own, gathered, count, type.type);
  for (std::uint32_t rank = 1; rank < size() && bytes != 0; ++rank) {
    int elements = static_cast<int>(count);
    function(gathered + bytes * rank, gathered, &elements, &handle);
  }
  Copy(output, gathered, bytes);
}

void Communicator::AllGather(const void* input, void* output, std::uint64_t count,
                             const Type& type) {
  const std::uint64_t bytes = count * type.bytes;
  if (!group_) return Copy(output, input, bytes);
  const UnderWay under_way;
  if (bytes == 0) return group_->AllGather(nullptr, nullptr, 0, type.type);
  const Buffer in(*connection_, bytes);
  const Buffer out(*connection_, bytes * size());
  Copy(in.data(), input, bytes);
  group_->AllGather(in.data(), out.data(), count, type.type);
  Copy(output, out.data(), bytes * size());
}

void Communicator::Send(const void* input, std::uint64_t count, const Type& type,
                        std::uint32_t to) {
  if (!group_) throw std::runtime_error("MPI_Send: this rank is alone in its communicator");
  const UnderWay under_way;
  const std::uint64_t bytes = count * type.bytes;
  client::ReapSends();
  if (bytes == 0) return group_->Send(nullptr, 0, type.type, to);
  // The library keeps the range until the send has ended.
  const Buffer copy(*connection_, bytes);
  Copy(copy.data(), input, bytes);
  if (client::SendBytesMax() == 0) return group_->Send(copy.data(), count, type.type, to);
  mlxcomm_request request{};
  request.struct_size = sizeof request;
  request.kind = MLXCOMM_SEND;
  request.type = type.type;
  request.peer = to;
  request.input = copy.data();
  request.count = count;
  std::uint64_t ticket = 0;
  mlxcomm_error error{};
  Check(mlxcomm_submit(group_->get(), &request, &ticket, &error), error);
  Check(client::GoOn(group_->get(), ticket, to, bytes, shared_from_this(), &error), error);
}

void Communicator::Receive(void* output, std::uint64_t count, const Type& type,
                           std::uint32_t from) {
  if (!group_) throw std::runtime_error("MPI_Recv: this rank is alone in its communicator");
  const UnderWay under_way;
  const std::uint64_t bytes = count * type.bytes;
  if (bytes == 0) return group_->Receive(nullptr, 0, type.type, from);
  const Buffer out(*connection_, bytes);
  group_->Receive(out.data(), count, type.type, from);
  Copy(output, out.data(), bytes);
}

std::shared_ptr<Communicator> Communicator::Split(const std::shared_ptr<Communicator>& self,
                                                  int color, int key) {
  if (!self->group_) return std::make_shared<Communicator>();
  const UnderWay under_way;
  std::optional<Group> part = self->group_->Split(color < 0 ? MLXCOMM_NO_GROUP : color, key);
  if (!part) return std::make_shared<Communicator>();
  return std::make_shared<Communicator>(self->connection_, std::move(*part), self);
}

}  // namespace mlxcomm::mpi
