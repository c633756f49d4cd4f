// The answers to calls that the node itself serves; jobs/answer.h explains them.
#pragma once

#include "daemon/jobs/answer.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

using jobs::Answer;
using PingAnswer = Answer<v1::PingReply>;
using DoctorAnswer = Answer<v1::DoctorReply>;

}  // namespace mlxcomm::node
