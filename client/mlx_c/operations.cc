// The calls of the C interface that build operations.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/mlx/collectives.h"
#include "client/mlx_c/called_group.h"
#include "client/mlx_c/handles.h"
#include "client/mlx_c/mlxcomm_mlx.h"
#include "client/mlx_c/reported_error.h"

namespace {

namespace mx = mlx::core;
namespace graph = mlxcomm::graph;
using graph::Call;
using graph::Operate;
using mlxcomm::OperationKind;
using mlxcomm::mlx_c::ArrayOf;
using mlxcomm::mlx_c::ArraysOf;
using mlxcomm::mlx_c::CalledGroup;
using mlxcomm::mlx_c::CheckResult;
using mlxcomm::mlx_c::NumberOf;
using mlxcomm::mlx_c::Reporting;
using mlxcomm::mlx_c::Set;

// What all of them take beside their arrays.
struct Where {
  const char* function;
  mlx_distributed_group group;
  std::uint64_t timeout_ns;
  mlx_stream stream;
};

template <typename Result, typename Build>
int Built(Result* res, const Where& where, Build build,
          std::source_location caller = std::source_location::current()) {
  return Reporting(
      [&] {
        CheckResult(res);
        const auto ours = CalledGroup(where.function, where.group);
        const Call call{ours == nullptr ? nullptr : ours->joined(),
                        mlxcomm::mlx_c::StreamOf(where.stream), where.timeout_ns};
        Set(res, build(call));
      },
      caller);
}

std::uint32_t RankOf(const char* function, const char* argument, int rank) {
  if (rank >= 0) return static_cast<std::uint32_t>(rank);
  throw std::invalid_argument(std::string(function) + ": " + argument + " " + std::to_string(rank) +
                              ": expected a rank, 0 or more");
}

mlxcomm_operator Known(const char* function, const mlxcomm_operator& op) {
  const int number = NumberOf(op);
  const bool fits = number > 0 && number <= 255;
  if (fits && IsValid(static_cast<mlxcomm::ReduceOperator>(number))) return op;
  throw std::invalid_argument(std::string(function) + ": op " + std::to_string(number) +
                              ": expected one of mlxcomm_operator");
}

std::vector<std::uint64_t> Counts(const std::uint64_t* counts, std::size_t number) {
  if (counts == nullptr) throw std::invalid_argument("counts: expected a table, got NULL");
  return {counts, counts + number};
}

// Asks the other ranks: each gives its number, and gets one from each.
std::vector<std::uint64_t> Evaluated(mx::array told) {
  told.eval();
  const auto* const values = told.data<std::int64_t>();
  return {values, values + told.size()};
}

}  // namespace

extern "C" {

int mlxcomm_mlx_all_reduce(mlx_array* res, mlx_array x, mlxcomm_operator op,
                           mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_reduce", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x), {.kind = OperationKind::kAllReduce, .op = Known("all_reduce", op)},
                   call);
  });
}

int mlxcomm_mlx_all_reduce_many(mlx_vector_array* res, mlx_vector_array xs, mlxcomm_operator op,
                                size_t bucket_bytes, mlx_distributed_group group,
                                uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_reduce_many", group, timeout_ns, s}, [&](const Call& call) {
    return graph::AllReduceMany(ArraysOf(xs), Known("all_reduce_many", op), bucket_bytes, call);
  });
}

int mlxcomm_mlx_reduce(mlx_array* res, mlx_array x, int root, mlxcomm_operator op,
                       mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"reduce", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kReduce,
                    .op = Known("reduce", op),
                    .root = RankOf("reduce", "root", root)},
                   call);
  });
}

int mlxcomm_mlx_reduce_scatter(mlx_array* res, mlx_array x, mlxcomm_operator op,
                               mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"reduce_scatter", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kReduceScatter, .op = Known("reduce_scatter", op)},
                   call);
  });
}

int mlxcomm_mlx_broadcast(mlx_array* res, mlx_array x, int root, mlx_distributed_group group,
                          uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"broadcast", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kBroadcast, .root = RankOf("broadcast", "root", root)},
                   call);
  });
}

int mlxcomm_mlx_all_gather(mlx_array* res, mlx_array x, mlx_distributed_group group,
                           uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_gather", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x), {.kind = OperationKind::kAllGather}, call);
  });
}

int mlxcomm_mlx_all_gather_v(mlx_array* res, mlx_array x, const uint64_t* counts, size_t counts_num,
                             mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_gather_v", group, timeout_ns, s}, [&](const Call& call) {
    const mx::array& rows = ArrayOf(x);
    if (rows.ndim() == 0) {
      throw std::invalid_argument(
          "all_gather_v: expected an array with a leading axis, got a scalar");
    }
    if (counts != nullptr)
      return Operate(rows,
                     {.kind = OperationKind::kAllGatherV, .send_rows = Counts(counts, counts_num)},
                     call);
    const mx::array own({static_cast<std::int64_t>(rows.shape(0))}, mx::Shape{1}, mx::int64);
    return Operate(
        rows,
        {.kind = OperationKind::kAllGatherV,
         .send_rows = Evaluated(Operate(own, {.kind = OperationKind::kAllGather}, call))},
        call);
  });
}

int mlxcomm_mlx_gather(mlx_array* res, mlx_array x, int root, mlx_distributed_group group,
                       uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"gather", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kGather, .root = RankOf("gather", "root", root)}, call);
  });
}

int mlxcomm_mlx_scatter(mlx_array* res, mlx_array x, int root, mlx_distributed_group group,
                        uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"scatter", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kScatter, .root = RankOf("scatter", "root", root)},
                   call);
  });
}

int mlxcomm_mlx_all_to_all(mlx_array* res, mlx_array x, mlx_distributed_group group,
                           uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_to_all", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x), {.kind = OperationKind::kAllToAll}, call);
  });
}

int mlxcomm_mlx_all_to_all_v(mlx_array* res, mlx_array x, const uint64_t* send_counts,
                             const uint64_t* receive_counts, size_t counts_num,
                             mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"all_to_all_v", group, timeout_ns, s}, [&](const Call& call) {
    const std::vector<std::uint64_t> sent = Counts(send_counts, counts_num);
    if (receive_counts != nullptr) {
      return Operate(ArrayOf(x),
                     {.kind = OperationKind::kAllToAllV,
                      .send_rows = sent,
                      .receive_rows = Counts(receive_counts, counts_num)},
                     call);
    }
    if (sent.size() != call.size()) {
      throw std::invalid_argument("all_to_all_v: send_counts: expected one for each of " +
                                  std::to_string(call.size()) + " ranks, got " +
                                  std::to_string(sent.size()));
    }
    const std::vector<std::int64_t> own(sent.begin(), sent.end());
    const mx::array told(own.data(), mx::Shape{static_cast<int>(own.size())}, mx::int64);
    return Operate(
        ArrayOf(x),
        {.kind = OperationKind::kAllToAllV,
         .send_rows = sent,
         .receive_rows = Evaluated(Operate(told, {.kind = OperationKind::kAllToAll}, call))},
        call);
  });
}

int mlxcomm_mlx_send(mlx_array* res, mlx_array x, int dst, uint32_t tag,
                     mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"send", group, timeout_ns, s}, [&](const Call& call) {
    return Operate(ArrayOf(x),
                   {.kind = OperationKind::kSend, .root = RankOf("send", "dst", dst), .tag = tag},
                   call);
  });
}

int mlxcomm_mlx_recv(mlx_array* res, const int* shape, size_t shape_num, mlx_dtype dtype, int src,
                     uint32_t tag, mlx_array after, mlx_distributed_group group,
                     uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"recv", group, timeout_ns, s}, [&](const Call& call) {
    if (shape == nullptr && shape_num > 0) {
      throw std::invalid_argument("recv: shape: expected a pointer, got NULL");
    }
    const mx::Shape expected = shape_num == 0 ? mx::Shape{} : mx::Shape(shape, shape + shape_num);
    const std::optional<mx::array> before =
        after.ctx == nullptr ? std::nullopt : std::optional<mx::array>(ArrayOf(after));
    return graph::Receive(expected, mlxcomm::mlx_c::TypeOf(NumberOf(dtype)),
                          RankOf("recv", "src", src), tag, before, call);
  });
}

int mlxcomm_mlx_recv_like(mlx_array* res, mlx_array x, int src, uint32_t tag,
                          mlx_distributed_group group, uint64_t timeout_ns, mlx_stream s) {
  return Built(res, {"recv_like", group, timeout_ns, s}, [&](const Call& call) {
    const mx::array& like = ArrayOf(x);
    return graph::Receive(like.shape(), like.dtype(), RankOf("recv_like", "src", src), tag, like,
                          call);
  });
}

}  // extern "C"
