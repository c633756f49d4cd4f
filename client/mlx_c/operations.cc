#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/mlx/collectives.h"
#include "client/mlx_c/handles.h"
#include "client/mlx_c/mlxcomm_mlx.h"
#include "client/mlx_c/reported_error.h"

namespace {

namespace mx = mlx::core;
namespace graph = mlxcomm::graph;
using graph::Call;
using graph::Operate;
using mlxcomm::OperationKind;
using mlxcomm::OperationRow;
using mlxcomm::mlx_c::ArrayOf;
using mlxcomm::mlx_c::ArraysOf;
using mlxcomm::mlx_c::CalledGroup;
using mlxcomm::mlx_c::CheckResult;
using mlxcomm::mlx_c::NumberOf;
using mlxcomm::mlx_c::Reporting;
using mlxcomm::mlx_c::Set;

Call CallOn(const char* function, mlx_distributed_group group, std::uint64_t timeout_ns,
            mlx_stream stream) {
  const auto ours = CalledGroup(function, group);
  return {ours == nullptr ? nullptr : ours->joined(), mlxcomm::mlx_c::StreamOf(stream), timeout_ns};
}

std::uint32_t RankOf(const char* name, const char* argument, int rank) {
  if (rank >= 0) return static_cast<std::uint32_t>(rank);
  throw std::invalid_argument(std::string(name) + ": " + argument + ": expected a rank, got " +
                              std::to_string(rank));
}

mlxcomm_operator Known(const char* function, const mlxcomm_operator& op) {
  const int number = NumberOf(op);
  const bool fits = number > 0 && number <= 255;
  if (fits && IsValid(static_cast<mlxcomm::ReduceOperator>(number))) return op;
  throw std::invalid_argument(std::string(function) + ": op: expected an mlxcomm_operator, got " +
                              std::to_string(number));
}

std::vector<std::uint64_t> Counts(const std::uint64_t* counts, std::size_t number) {
  if (counts == nullptr) throw std::invalid_argument("counts: expected a table, got NULL");
  return {counts, counts + number};
}

std::vector<std::uint64_t> Evaluated(mx::array counts) {
  counts.eval();
  const auto* const values = counts.data<std::int64_t>();
  return {values, values + counts.size()};
}

const OperationRow& RowOf(const mlxcomm_mlx_request* request) {
  if (request == nullptr || request->struct_size != sizeof *request) {
    throw std::invalid_argument(
        "operate: request: expected struct_size to be sizeof(mlxcomm_mlx_request), " +
        std::to_string(sizeof *request));
  }
  const int number = NumberOf(request->kind);
  const OperationRow* const row =
      number < 0 || number > 255 ? nullptr
                                 : mlxcomm::kOperations.Find(static_cast<OperationKind>(number));
  if (row != nullptr && row->value != OperationKind::kBarrier) return *row;
  throw std::invalid_argument("operate: kind: expected an mlxcomm_kind other than barrier, got " +
                              std::to_string(number));
}

// Sets the tables of counts; a missing one is exchanged with the other ranks.
void AddRows(const mx::array& x, const mlxcomm_mlx_request& request, const Call& call,
             graph::Operation& operation) {
  if (operation.kind == OperationKind::kAllGatherV) {
    if (x.ndim() == 0) {
      throw std::invalid_argument(
          "all_gather_v: x: expected an array with a leading axis, got a scalar");
    }
    const mx::array own({static_cast<std::int64_t>(x.shape(0))}, mx::Shape{1}, mx::int64);
    operation.send_rows = request.counts != nullptr
                              ? Counts(request.counts, request.counts_num)
                              : Evaluated(Operate(own, {.kind = OperationKind::kAllGather}, call));
    return;
  }
  operation.send_rows = Counts(request.counts, request.counts_num);
  if (request.receive_counts != nullptr) {
    operation.receive_rows = Counts(request.receive_counts, request.counts_num);
    return;
  }
  if (operation.send_rows.size() != call.size()) {
    throw std::invalid_argument("all_to_all_v: send_counts: expected one for each of " +
                                std::to_string(call.size()) + " ranks, got " +
                                std::to_string(operation.send_rows.size()));
  }
  const std::vector<std::int64_t> own(operation.send_rows.begin(), operation.send_rows.end());
  const mx::array counts(own.data(), mx::Shape{static_cast<int>(own.size())}, mx::int64);
  operation.receive_rows = Evaluated(Operate(counts, {.kind = OperationKind::kAllToAll}, call));
}

mx::array Operated(const mx::array& x, const OperationRow& row, const mlxcomm_mlx_request& request,
                   const Call& call) {
  graph::Operation operation{.kind = row.value, .tag = request.tag};
  if (Reduces(row.value)) operation.op = Known(row.name, request.op);
  if (HasRoot(row.value)) operation.root = RankOf(row.name, "root", request.peer);
  if (row.value == OperationKind::kSend) operation.root = RankOf(row.name, "dst", request.peer);
  if (row.value == OperationKind::kReceive) {
    return graph::Receive(x.shape(), x.dtype(), RankOf(row.name, "src", request.peer), request.tag,
                          x, call);
  }
  if (HasCounts(row.value)) AddRows(x, request, call, operation);
  return Operate(x, std::move(operation), call);
}

}  // namespace

extern "C" {

int mlxcomm_mlx_operate(mlx_array* res, mlx_array x, const mlxcomm_mlx_request* request) {
  return Reporting([&] {
    CheckResult(res);
    const OperationRow& row = RowOf(request);
    const Call call = CallOn(row.name, request->group, request->timeout_ns, request->s);
    Set(res, Operated(ArrayOf(x), row, *request, call));
  });
}

int mlxcomm_mlx_all_reduce_many(mlx_vector_array* res, mlx_vector_array xs, mlxcomm_operator op,
                                size_t bucket_bytes, mlx_distributed_group group,
                                uint64_t timeout_ns, mlx_stream s) {
  return Reporting([&] {
    CheckResult(res);
    const Call call = CallOn("all_reduce_many", group, timeout_ns, s);
    Set(res, graph::AllReduceMany(ArraysOf(xs), Known("all_reduce_many", op), bucket_bytes, call));
  });
}

int mlxcomm_mlx_recv(mlx_array* res, const int* shape, size_t shape_num, mlx_dtype dtype, int src,
                     uint32_t tag, mlx_array after, mlx_distributed_group group,
                     uint64_t timeout_ns, mlx_stream s) {
  return Reporting([&] {
    CheckResult(res);
    const Call call = CallOn("recv", group, timeout_ns, s);
    if (shape == nullptr && shape_num > 0) {
      throw std::invalid_argument("recv: shape: expected a pointer, got NULL");
    }
    const mx::Shape expected = shape_num == 0 ? mx::Shape{} : mx::Shape(shape, shape + shape_num);
    const std::optional<mx::array> before =
        after.ctx == nullptr ? std::nullopt : std::optional<mx::array>(ArrayOf(after));
    Set(res, graph::Receive(expected, mlxcomm::mlx_c::TypeOf(NumberOf(dtype)),
                            RankOf("recv", "src", src), tag, before, call));
  });
}

}  // extern "C"
