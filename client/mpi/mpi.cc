// The functions that MLX calls. They check arguments and look up handles; communicator.h does the
// rest. Exceptions reach Python from the evaluation; a program that does not catch them terminates,
// as with Open MPI.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "client/lib/mlxcomm.h"
#include "client/mpi/communicator.h"
#include "client/mpi/handles.h"
#include "client/mpi/open_mpi.h"
#include "client/mpi/process.h"

namespace {

using mlxcomm::mpi::Call;
using mlxcomm::mpi::FindOperator;
using mlxcomm::mpi::FindType;
using mlxcomm::mpi::Type;

[[noreturn]] void Refuse(const char* call, const std::string& what) {
  throw std::runtime_error(std::string(call) + ": " + what);
}

std::uint64_t Count(int count, const char* call) {
  if (count < 0) {
    Refuse(call, "a count of " + std::to_string(count) +
                     ": MPI counts in 31 bits; use mlxcomm's own group for larger arrays");
  }
  return static_cast<std::uint64_t>(count);
}

void CheckBuffer(const void* data, std::uint64_t count, const char* call) {
  if (count != 0 && (data == nullptr || data == MPI_IN_PLACE)) {
    Refuse(call, "expected a buffer, got NULL or an unsupported MPI_IN_PLACE");
  }
}

template <typename Value>
void CheckResult(const Value* result, const char* call) {
  if (result == nullptr) Refuse(call, "expected a pointer for the result, got NULL");
}

// MLX sends with tag 0 and receives with any tag.
void CheckTag(int tag, bool receives, const char* call) {
  if (tag == 0 || (receives && tag == MPI_ANY_TAG)) return;
  Refuse(call, "tag " + std::to_string(tag) + ": expected 0, MLX's tag");
}

std::uint32_t Peer(int rank, std::uint32_t size, const char* call) {
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= size) {
    Refuse(call, "rank " + std::to_string(rank) + ": expected 0 to " + std::to_string(size - 1) +
                     " (no wildcard)");
  }
  return static_cast<std::uint32_t>(rank);
}

}  // namespace

extern "C" {

int MPI_Get_library_version(char* version, int* length) {
  CheckResult(version, "MPI_Get_library_version");
  CheckResult(length, "MPI_Get_library_version");
  // MLX searches this text for "Open MPI".
  *length = std::snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                          "mlxcomm %s, with the interface of Open MPI v5.0", mlxcomm_version());
  return MPI_SUCCESS;
}

int MPI_Init(int*, char***) {
  mlxcomm::mpi::Join(__builtin_return_address(0));
  return MPI_SUCCESS;
}

int MPI_Finalize(void) {
  mlxcomm::mpi::Leave();
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  CheckResult(rank, "MPI_Comm_rank");
  *rank = static_cast<int>(Call(comm, "MPI_Comm_rank").on()->rank());
  return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int* size) {
  CheckResult(size, "MPI_Comm_size");
  *size = static_cast<int>(Call(comm, "MPI_Comm_size").on()->size());
  return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  CheckResult(part, "MPI_Comm_split");
  const Call call(comm, "MPI_Comm_split");
  *part = mlxcomm::mpi::Add(mlxcomm::mpi::Communicator::Split(call.on(), color, key));
  return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm* comm) {
  if (comm == nullptr || !mlxcomm::mpi::Remove(*comm)) return MPI_ERR_COMM;
  *comm = nullptr;
  return MPI_SUCCESS;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  constexpr const char* kCall = "MPI_Allreduce";
  const Call call(comm, kCall);
  const Type known = FindType(type, kCall);
  const auto how = FindOperator(op, kCall);
  const std::uint64_t elements = Count(count, kCall);
  const void* const input = send == MPI_IN_PLACE ? receive : send;
  CheckBuffer(input, elements, kCall);
  CheckBuffer(receive, elements, kCall);
  call.on()->AllReduce(input, receive, elements, known, how, type);
  return MPI_SUCCESS;
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  constexpr const char* kCall = "MPI_Allgather";
  const Call call(comm, kCall);
  const Type known = FindType(receive_type, kCall);
  const std::uint64_t elements = Count(receive_count, kCall);
  CheckBuffer(receive, elements, kCall);
  const void* input = send;
  if (send == MPI_IN_PLACE) {
    input = static_cast<const char*>(receive) + elements * known.bytes * call.on()->rank();
  } else if (FindType(send_type, kCall).type != known.type ||
             Count(send_count, kCall) != elements) {
    Refuse(kCall, "expected the same type and count for sending and receiving");
  }
  CheckBuffer(input, elements, kCall);
  call.on()->AllGather(input, receive, elements, known);
  return MPI_SUCCESS;
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int destination, int tag,
             MPI_Comm comm) {
  constexpr const char* kCall = "MPI_Send";
  const Call call(comm, kCall);
  const Type known = FindType(type, kCall);
  const std::uint64_t elements = Count(count, kCall);
  CheckBuffer(data, elements, kCall);
  CheckTag(tag, /*receives=*/false, kCall);
  call.on()->Send(data, elements, known, Peer(destination, call.on()->size(), kCall));
  return MPI_SUCCESS;
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  constexpr const char* kCall = "MPI_Recv";
  const Call call(comm, kCall);
  const Type known = FindType(type, kCall);
  const std::uint64_t elements = Count(count, kCall);
  CheckBuffer(data, elements, kCall);
  CheckTag(tag, /*receives=*/true, kCall);
  call.on()->Receive(data, elements, known, Peer(source, call.on()->size(), kCall));
  if (status != nullptr) *status = {source, 0, MPI_SUCCESS, 0, elements * known.bytes};
  return MPI_SUCCESS;
}

int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype* type) {
  CheckResult(type, "MPI_Type_contiguous");
  *type = mlxcomm::mpi::MakeHalf(count, of);
  return MPI_SUCCESS;
}

int MPI_Type_commit(MPI_Datatype* type) {
  CheckResult(type, "MPI_Type_commit");
  FindType(*type, "MPI_Type_commit");
  return MPI_SUCCESS;
}

int MPI_Op_create(MPI_User_function* function, int, MPI_Op* op) {
  CheckResult(op, "MPI_Op_create");
  *op = mlxcomm::mpi::MakeOperator(function);
  return MPI_SUCCESS;
}

}  // extern "C"
