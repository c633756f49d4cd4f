#include "proto/status_words.h"

#include <array>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>

namespace mlxcomm {
namespace {

namespace pb = google::protobuf;

#define MLXCOMM_SAME(ours, told) \
  static_assert(static_cast<int>(LinkReason::ours) == static_cast<int>(v1::LinkReason::told));
MLXCOMM_LINK_REASONS(MLXCOMM_SAME)
#undef MLXCOMM_SAME
static_assert(kLinkReasons == v1::LinkReason::Value_ARRAYSIZE);
#define MLXCOMM_SAME(ours, told) \
  static_assert(static_cast<int>(Transport::ours) == static_cast<int>(v1::Transport::told));
MLXCOMM_TRANSPORTS(MLXCOMM_SAME)
#undef MLXCOMM_SAME
static_assert(kTransports == v1::Transport::Value_ARRAYSIZE);

static_assert(static_cast<int>(LinkState::kConnecting) == v1::LinkState::connecting &&
              static_cast<int>(LinkState::kUp) == v1::LinkState::up &&
              static_cast<int>(LinkState::kGrace) == v1::LinkState::grace &&
              static_cast<int>(LinkState::kLost) == v1::LinkState::lost);

constexpr char kWordSuffix[] = "_word";

struct RdmaWords {
  std::string_view word;
  v1::LinkReason::Value reason;
};

constexpr std::array<RdmaWords, 8> kRdmaWords = {{
    {"looking", v1::LinkReason::rdma_looking},
    {"no library", v1::LinkReason::rdma_no_library},
    {"no answer", v1::LinkReason::rdma_driver_silent},
    {"failed", v1::LinkReason::rdma_driver_failed},
    {"no device", v1::LinkReason::rdma_no_device},
    {"port", v1::LinkReason::rdma_port_down},
    {"no GID", v1::LinkReason::rdma_no_gid},
    {"tls", v1::LinkReason::rdma_encrypted},
}};

v1::LinkReason::Value ReasonOfRdma(std::string_view word, v1::LinkReason::Value unless_known) {
  for (const RdmaWords& one : kRdmaWords) {
    if (one.word == word) return one.reason;
  }
  return unless_known;
}

// The enum that a string field of older daemons stands for; nullptr: for none.
const pb::FieldDescriptor* ValueOf(const pb::FieldDescriptor& word) {
  const std::string_view name = word.name();
  const std::size_t suffix = sizeof kWordSuffix - 1;
  if (!name.ends_with(kWordSuffix)) return nullptr;
  const pb::FieldDescriptor* const value =
      word.containing_type()->FindFieldByName(std::string(name.substr(0, name.size() - suffix)));
  return value != nullptr && value->cpp_type() == pb::FieldDescriptor::CPPTYPE_ENUM ? value
                                                                                    : nullptr;
}

// "set-up" stood both for an attempt that goes on and for one that failed; "peer" for all refusals
// of the other side.
void ReadRdmaWord(v1::RailStatus& rail) {
  const std::string& word = rail.rdma().reason();
  if (rail.reason() != v1::LinkReason::none || word.empty()) return;
  // "peer" and "set-up" may mean more than these; what is not known must not look like a fault.
  rail.set_reason(word == "peer"     ? v1::LinkReason::rdma_no_offer
                  : word == "set-up" ? v1::LinkReason::rdma_being_made
                                     : ReasonOfRdma(word, v1::LinkReason::rdma_not_made));
  rail.set_peers_reason(word == "peer");
}

// The older detail began with the state.
void ReadDetail(v1::LinkStatus& link) {
  const std::string state = WordOf(link.state()) + ": ";
  if (link.detail().starts_with(state)) link.mutable_detail()->erase(0, state.size());
}

void ReadRdmaWord(v1::RdmaStatus& rdma) {
  if (rdma.reason() != v1::LinkReason::none || rdma.state() == "found") return;
  rdma.set_reason(ReasonOfRdma(rdma.state(), v1::LinkReason::rdma_looking));
}

template <typename Do>
void ForEachInside(pb::Message& message, Do&& what) {
  const pb::Reflection& reflection = *message.GetReflection();
  const pb::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* const field = type.field(i);
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (reflection.HasField(message, field)) what(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int k = 0; k < reflection.FieldSize(message, field); ++k) {
      what(*reflection.MutableRepeatedMessage(&message, field, k));
    }
  }
}

}  // namespace

std::string_view RdmaWord(v1::LinkReason::Value reason, bool peers_reason) {
  if (reason == v1::LinkReason::none) return {};
  if (peers_reason || reason == v1::LinkReason::rdma_no_offer) return "peer";
  for (const RdmaWords& one : kRdmaWords) {
    if (one.reason == reason) return one.word;
  }
  return "set-up";
}

void ReadOlderWords(pb::Message& answer) {
  const pb::Reflection& reflection = *answer.GetReflection();
  const pb::Descriptor& type = *answer.GetDescriptor();
  bool is_older = false;
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* const word = type.field(i);
    const pb::FieldDescriptor* const value = ValueOf(*word);
    if (value == nullptr || !reflection.HasField(answer, word)) continue;
    is_older = is_older || reflection.GetEnumValue(answer, value) == 0;
    const pb::EnumValueDescriptor* const said =
        value->enum_type()->FindValueByName(reflection.GetString(answer, word));
    if (said != nullptr && reflection.GetEnumValue(answer, value) == 0)
      reflection.SetEnum(&answer, value, said);
    reflection.ClearField(&answer, word);
  }
  if (auto* const link = dynamic_cast<v1::LinkStatus*>(&answer); link != nullptr && is_older)
    ReadDetail(*link);
  if (auto* const rail = dynamic_cast<v1::RailStatus*>(&answer)) ReadRdmaWord(*rail);
  if (auto* const rdma = dynamic_cast<v1::RdmaStatus*>(&answer)) ReadRdmaWord(*rdma);
  ForEachInside(answer, [](pb::Message& inside) { ReadOlderWords(inside); });
}

void WriteOlderWords(pb::Message& answer) {
  const pb::Reflection& reflection = *answer.GetReflection();
  const pb::Descriptor& type = *answer.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* const word = type.field(i);
    const pb::FieldDescriptor* const value = ValueOf(*word);
    if (value == nullptr || reflection.GetEnumValue(answer, value) == 0) continue;
    reflection.SetString(&answer, word, std::string(reflection.GetEnum(answer, value)->name()));
  }
  ForEachInside(answer, [](pb::Message& inside) { WriteOlderWords(inside); });
}

}  // namespace mlxcomm
