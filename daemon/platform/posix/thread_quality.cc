#include "daemon/platform/thread_quality.h"

#include <pthread.h>
#include <pthread/qos.h>

namespace mlxcomm::platform {

void ServeWhoWaits() { ::pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0); }

}  // namespace mlxcomm::platform
