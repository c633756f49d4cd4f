// The end of a call that is refused: gRPC's status, and the Failure in its details.
#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/types/failure.h"

namespace mlxcomm::services {

grpc::Status Refuse(const Failure& failure);

// For a caller whose connection has no session of the required kind.
grpc::Status RefuseStranger();

}  // namespace mlxcomm::services
