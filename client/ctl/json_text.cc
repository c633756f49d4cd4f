#include "client/ctl/json_text.h"

#include <google/protobuf/util/json_util.h>

namespace mlxcomm::ctl {

Failure ToJson(const google::protobuf::Message& message, std::string& text, JsonLayout layout) {
  google::protobuf::util::JsonPrintOptions format;
  format.add_whitespace = layout == JsonLayout::kIndented;
#if GOOGLE_PROTOBUF_VERSION >= 5026000  // Its name changed with protobuf 26.
  format.always_print_fields_with_no_presence = true;
#else
  format.always_print_primitive_fields = true;
#endif
  format.preserve_proto_field_names = true;
  const auto made = google::protobuf::util::MessageToJsonString(message, &text, format);
  if (made.ok()) return {};
  return {FailureCode::kInternal, kNoRank, "no JSON of the daemon's answer: " + made.ToString()};
}

}  // namespace mlxcomm::ctl
