// The numbers of mlxcomm.h are those of proto/types. Each is asserted: a different one does not
// compile, and the test finds one that is appended there and not here.
#include "client/lib/mlxcomm.h"
#include "proto/types/failure.h"
#include "proto/types/operation.h"

namespace mlxcomm {
namespace {

template <typename C, typename Ours>
constexpr bool Same(C theirs, Ours ours) {
  return static_cast<int>(theirs) == static_cast<int>(ours);
}

static_assert(Same(MLXCOMM_OK, FailureCode::kNone));
static_assert(Same(MLXCOMM_INVALID_ARGUMENT, FailureCode::kInvalidArgument));
static_assert(Same(MLXCOMM_MISMATCH, FailureCode::kMismatch));
static_assert(Same(MLXCOMM_DEADLINE_EXCEEDED, FailureCode::kDeadlineExceeded));
static_assert(Same(MLXCOMM_RANK_LOST, FailureCode::kRankLost));
static_assert(Same(MLXCOMM_DAEMON_LOST, FailureCode::kDaemonLost));
static_assert(Same(MLXCOMM_DAEMON_STOPPING, FailureCode::kDaemonStopping));
static_assert(Same(MLXCOMM_RESOURCE_EXHAUSTED, FailureCode::kResourceExhausted));
static_assert(Same(MLXCOMM_CANCELLED, FailureCode::kCancelled));
static_assert(Same(MLXCOMM_ALREADY_EXISTS, FailureCode::kAlreadyExists));
static_assert(Same(MLXCOMM_UNAVAILABLE, FailureCode::kUnavailable));
static_assert(Same(MLXCOMM_PERMISSION_DENIED, FailureCode::kPermissionDenied));
static_assert(Same(MLXCOMM_INTERNAL, FailureCode::kInternal));

static_assert(Same(MLXCOMM_FLOAT32, DataType::kFloat32));
static_assert(Same(MLXCOMM_FLOAT16, DataType::kFloat16));
static_assert(Same(MLXCOMM_BFLOAT16, DataType::kBfloat16));
static_assert(Same(MLXCOMM_INT32, DataType::kInt32));
static_assert(Same(MLXCOMM_BOOL, DataType::kBool));
static_assert(Same(MLXCOMM_INT8, DataType::kInt8));
static_assert(Same(MLXCOMM_INT16, DataType::kInt16));
static_assert(Same(MLXCOMM_INT64, DataType::kInt64));
static_assert(Same(MLXCOMM_UINT8, DataType::kUint8));
static_assert(Same(MLXCOMM_UINT16, DataType::kUint16));
static_assert(Same(MLXCOMM_UINT32, DataType::kUint32));
static_assert(Same(MLXCOMM_UINT64, DataType::kUint64));
static_assert(Same(MLXCOMM_FLOAT64, DataType::kFloat64));
static_assert(Same(MLXCOMM_COMPLEX64, DataType::kComplex64));

static_assert(Same(MLXCOMM_SUM, ReduceOperator::kSum));
static_assert(Same(MLXCOMM_PROD, ReduceOperator::kProduct));
static_assert(Same(MLXCOMM_MIN, ReduceOperator::kMin));
static_assert(Same(MLXCOMM_MAX, ReduceOperator::kMax));
static_assert(Same(MLXCOMM_AND, ReduceOperator::kAnd));
static_assert(Same(MLXCOMM_OR, ReduceOperator::kOr));
static_assert(Same(MLXCOMM_MEAN, ReduceOperator::kMean));

static_assert(Same(MLXCOMM_PLAN_AUTOMATIC, PlanKind::kAutomatic));
static_assert(Same(MLXCOMM_PLAN_RING, PlanKind::kRing));
static_assert(Same(MLXCOMM_PLAN_EXCHANGE, PlanKind::kExchange));
static_assert(Same(MLXCOMM_PLAN_HALVING_DOUBLING, PlanKind::kHalvingDoubling));
static_assert(Same(MLXCOMM_PLAN_TREE, PlanKind::kTree));

}  // namespace
}  // namespace mlxcomm
