// What a call ends with that is not served: gRPC's status, and the Failure in its details.
#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/types/failure.h"

namespace mlxcomm::control {

grpc::Status Refuse(const Failure& failure);

// For a caller whose connection has no session of the kind that the call wants.
grpc::Status RefuseStranger();

}  // namespace mlxcomm::control
