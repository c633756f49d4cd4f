// Classes of quality of service.
#pragma once

enum qos_class_t { QOS_CLASS_USER_INITIATED = 0x19 };
extern "C" int pthread_set_qos_class_self_np(qos_class_t quality, int relative_priority);
