#include "daemon/process/settings.h"

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mlxcomm/v1/setting.pb.h"

namespace mlxcomm {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::size_t kLineBytesMax = 100;

const v1::Setting& SettingOf(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::setting);
}

bool IsNumber(const FieldDescriptor& field) {
  return !field.is_repeated() && (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
                                  field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64);
}

std::uint64_t NumberIn(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  return field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32
             ? reflection.GetUInt32(message, &field)
             : reflection.GetUInt64(message, &field);
}

// The minimum, which may depend on another field of this message.
std::uint64_t LeastIn(const Message& message, const FieldDescriptor& field) {
  const v1::Setting& setting = SettingOf(field);
  const std::string& from = setting.has_above() ? setting.above() : setting.not_below();
  if (from.empty()) return setting.least();
  return NumberIn(message, *field.containing_type()->FindFieldByName(from)) +
         (setting.has_above() ? 1 : 0);
}

// "0, or 4096 to 1048576, a multiple of 4096"
std::string Range(const v1::Setting& setting, const std::string& least, const std::string& most) {
  std::string text = absl::StrCat(setting.or_zero() ? "0, or " : "", least, " to ", most);
  if (setting.multiple_of() > 1) absl::StrAppend(&text, ", a multiple of ", setting.multiple_of());
  return text;
}

// "65536", "2^46"
std::string Shown(std::uint64_t number) {
  const bool is_power = std::has_single_bit(number) && number >= std::uint64_t{1} << 20;
  return is_power ? absl::StrCat("2^", std::countr_zero(number)) : absl::StrCat(number);
}

// The range for help texts: another field is named.
std::string Bounds(const FieldDescriptor& field) {
  const v1::Setting& setting = SettingOf(field);
  std::string least = Shown(setting.least());
  if (setting.has_above()) least = absl::StrCat("above ", setting.above(), ",");
  if (setting.has_not_below()) least = setting.not_below();
  return Range(setting, least, Shown(setting.most()));
}

// "AUTO, TLS, PLAIN"
std::string Names(const google::protobuf::EnumDescriptor& values) {
  std::string text;
  for (int i = 0; i < values.value_count(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", std::string(values.value(i)->name()));
  }
  return text;
}

std::string Default(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: return absl::StrCat(field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64: return absl::StrCat(field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_BOOL: return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM: return std::string(field.default_value_enum()->name());
    default: return {};
  }
}

class Writer {
 public:
  void Line(const std::string& text) {
    absl::StrAppend(&text_, text.empty() ? "" : std::string(indent_, ' '), text, "\n");
  }
  // Wraps words into comment lines.
  void Comment(const std::string& words) {
    std::string line = "#";
    const std::size_t whole = words.ends_with(')') ? words.rfind(" (") : std::string::npos;
    std::vector<std::string> pieces = absl::StrSplit(words.substr(0, whole), ' ');
    if (whole != std::string::npos) pieces.push_back(words.substr(whole + 1));  // The bounds.
    for (const std::string& word : pieces) {
      if (indent_ + line.size() + 1 + word.size() > kLineBytesMax) {
        Line(line);
        line = "#";
      }
      absl::StrAppend(&line, " ", word);
    }
    Line(line);
  }
  void Message(const Descriptor& message) {
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      const bool is_section =
          !field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (i > 0) Line("");
      if (is_section) {
        Section(field);
      } else {
        Field(field);
      }
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  void Field(const FieldDescriptor& field) {
    const v1::Setting& setting = SettingOf(field);
    const std::string name = absl::StrCat(field.name());
    std::string help = setting.help();
    if (IsNumber(field)) absl::StrAppend(&help, " (", Bounds(field), ")");
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      absl::StrAppend(&help, " (", Names(*field.enum_type()), ")");
    }
    Comment(help);
    for (const std::string& example : setting.example()) {
      const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      Line(absl::StrCat("# ", name, is_message ? " " : ": ", example));
    }
    if (setting.example_size() == 0) Line(absl::StrCat(name, ": ", Default(field)));
  }
  void Section(const FieldDescriptor& field) {
    Comment(field.message_type()->options().GetExtension(v1::about));
    Line(absl::StrCat(std::string(field.name()), " {"));
    indent_ += 2;
    Message(*field.message_type());
    indent_ -= 2;
    Line("}");
  }

  std::string text_;
  std::size_t indent_ = 0;
};

}  // namespace

void CheckSettings(const Message& message, const ReportSetting& report) {
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const v1::Setting& setting = SettingOf(field);
    if (!IsNumber(field) || !setting.has_most()) continue;
    const std::uint64_t value = NumberIn(message, field);
    if (value == 0 && setting.or_zero()) continue;
    const std::uint64_t least = LeastIn(message, field);
    const bool is_multiple = setting.multiple_of() <= 1 || value % setting.multiple_of() == 0;
    if (value >= least && value <= setting.most() && is_multiple) continue;
    report(field, absl::StrCat(std::string(field.name()), ": expected ",
                               Range(setting, absl::StrCat(least), absl::StrCat(setting.most())),
                               ", got ", value));
  }
}

std::string WriteAnnotated(const Descriptor& message) {
  Writer writer;
  writer.Message(message);
  return writer.Take();
}

}  // namespace mlxcomm
