// Files that are part of the program; embed.cmake writes their bytes.
#pragma once

#include <string_view>

namespace mlxcomm::ctl {

extern const std::string_view kProtoDescriptors;  // A FileDescriptorSet, with comments.
extern const std::string_view kCompleteBash;      // Scripts, see complete.h.
extern const std::string_view kCompleteFish;
extern const std::string_view kCompleteZsh;
extern const std::string_view kServiceUnit;  // The service's files, see service/service_files.h.
extern const std::string_view kServicePlist;
extern const std::string_view kServiceLogrotate;
extern const std::string_view kServiceNewsyslog;
extern const std::string_view kPageHtml;  // web's page.
extern const std::string_view kPageCss;
extern const std::string_view kPageCurvesJs;
extern const std::string_view kPageJobsJs;
extern const std::string_view kPageJs;
extern const std::string_view kPageTablesJs;
extern const std::string_view kPageTopologyJs;
extern const std::string_view kPageWordsJs;
extern const std::string_view kPythonStartup;  // LocalRanks::SetCommand.
extern const std::string_view kForeignPython;

}  // namespace mlxcomm::ctl
