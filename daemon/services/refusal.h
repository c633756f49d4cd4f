// Turns a Failure into gRPC's status, with the Failure in its details.
#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/types/failure.h"

namespace mlxcomm::services {

grpc::Status Refuse(const Failure& failure);

// For a caller whose connection has no session, or one of the wrong kind.
grpc::Status RefuseStranger();

}  // namespace mlxcomm::services
