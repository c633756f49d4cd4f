#include "client/ctl/cli/json_text.h"

#include <vector>

#include <google/protobuf/util/json_util.h>

#include "proto/types/invariant.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

namespace pb = google::protobuf;

std::string ValidText(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = FirstCharacterBytes(text);
    valid += bytes == 0 ? "\xef\xbf\xbd" : text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return valid;
}

// Protobuf would drop invalid bytes and log a warning.
void MakeTextsValid(pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* const field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 0;
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_STRING:
        for (int i = 0; i < count; ++i) {
          reflection.SetRepeatedString(&message, field, i,
                                       ValidText(reflection.GetRepeatedString(message, field, i)));
        }
        if (!field->is_repeated())
          reflection.SetString(&message, field, ValidText(reflection.GetString(message, field)));
        break;
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        for (int i = 0; i < count; ++i)
          MakeTextsValid(*reflection.MutableRepeatedMessage(&message, field, i));
        if (!field->is_repeated()) MakeTextsValid(*reflection.MutableMessage(&message, field));
        break;
      default: break;
    }
  }
}

}  // namespace

Failure ToJson(const pb::Message& message, std::string& text, JsonLayout layout) {
  pb::util::JsonPrintOptions format;
  format.add_whitespace = layout == JsonLayout::kIndented;
#if GOOGLE_PROTOBUF_VERSION >= 5026000  // Renamed in protobuf 26.
  format.always_print_fields_with_no_presence = true;
#else
  format.always_print_primitive_fields = true;
#endif
  format.preserve_proto_field_names = true;
  const auto made = pb::util::MessageToJsonString(message, &text, format);
  if (made.ok()) return {};
  return {FailureCode::kInternal, kNoRank,
          "cannot print the daemon's answer as JSON: " + made.ToString()};
}

std::string JsonOf(pb::Message&& message, JsonLayout layout) {
  MakeTextsValid(message);
  std::string text;
  MLXCOMM_INVARIANT(ToJson(message, text, layout).ok());
  return text;
}

}  // namespace mlxcomm::ctl
