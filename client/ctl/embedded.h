// Files of the tree that are part of the program; embed.cmake writes their bytes.
//
// Owner: the program. Thread: any. Memory: constant.
#pragma once

#include <string_view>

namespace mlxcomm::ctl {

extern const std::string_view kProtoDescriptors;  // A FileDescriptorSet, with comments.
extern const std::string_view kCompleteBash;      // Scripts: complete.h.
extern const std::string_view kCompleteFish;
extern const std::string_view kCompleteZsh;
extern const std::string_view kBenchSchema;
extern const std::string_view kBugreportSchema;
extern const std::string_view kCompletionSchema;
extern const std::string_view kDoctorSchema;
extern const std::string_view kFirstLightSchema;
extern const std::string_view kClusterSchema;
extern const std::string_view kHostsExportSchema;
extern const std::string_view kHostsImportSchema;
extern const std::string_view kPingSchema;
extern const std::string_view kSchemaSchema;
extern const std::string_view kTraceSchema;

}  // namespace mlxcomm::ctl
