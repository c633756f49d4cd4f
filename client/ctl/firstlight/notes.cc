#include "client/ctl/firstlight/notes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/cluster/secrets.h"
#include "client/ctl/firstlight/assumptions.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/invariant.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr const char* kAbout[] = {
    "What mlxcommctl firstlight has seen on one machine, for the people who write mlxcomm.",
    "assumptions: each thing that mlxcomm takes of Macs; confirmed, refuted, or not tried and why.",
    "steps, measurements, interfaces, findings (of doctor), rdma (what each device did), events.",
    "Not in it: keys, names of machines and users, MAC addresses, anything of your programs or "
    "data.",
    "Names are replaced by mac-1, mac-2, ...; addresses by others of the same kind, alike "
    "throughout.",
    "Look before you share it: this is all there is. tests/firstlight/replay reads it."};

// Filters every text of the document.
class Writer {
 public:
  Writer(const Pseudonyms& pseudonyms, const std::vector<std::string>& keys)
      : pseudonyms_(pseudonyms), keys_(keys) {}
  std::string operator()(std::string text) const {
    if (text.size() > Notes::kTextBytesMax) text.resize(Notes::kTextBytesMax);
    return WithoutSecrets(pseudonyms_.Replace(std::move(text)), keys_);
  }

 private:
  const Pseudonyms& pseudonyms_;
  const std::vector<std::string>& keys_;
};

// Every text in it, but those that are always one of a few words, and the names of a map.
void FilterTexts(google::protobuf::Message& message, const Writer& text) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* const field : fields) {
    const bool is_key = field->containing_type()->options().map_entry() && field->number() == 1;
    if (is_key || field->options().GetExtension(v1::json).values_size() > 0) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->message_type() != nullptr) {
        FilterTexts(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                         : *reflection.MutableMessage(&message, field),
                    text);
      } else if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
        break;
      } else if (field->is_repeated()) {
        reflection.SetRepeatedString(&message, field, i,
                                     text(reflection.GetRepeatedString(message, field, i)));
      } else {
        reflection.SetString(&message, field, text(reflection.GetString(message, field)));
      }
    }
  }
}

void FillAssumptions(const Notes& notes, const Writer& text, v1::FirstLightDocument& document) {
  for (const Assumption& one : Assumptions()) {
    const Judgement judgement = notes.Of(one.id);
    v1::FirstLightAssumption& told = *document.add_assumptions();
    told.set_id(std::string(one.id));
    told.set_assumed(std::string(one.assumed));
    told.set_source(std::string(one.source));
    told.set_step(std::string(one.step));
    told.set_verdict(VerdictText(judgement.verdict));
    told.set_seen(text(judgement.seen));
  }
}

// Paths are names.
void RemovePaths(v1::FirstLightRdma& rdma) {
  auto& limits = *rdma.mutable_limits();
  limits.erase(std::remove_if(limits.begin(), limits.end(),
                              [](const v1::FirstLightLimit& limit) {
                                return limit.name() == "library" || limit.name() == "configuration";
                              }),
               limits.end());
}

// Each entry of a list on a line of its own, so that people can read it.
std::string Written(v1::FirstLightDocument&& message) {
  using nlohmann::ordered_json;
  ordered_json document = ordered_json::parse(JsonOf(std::move(message), JsonLayout::kCompact));
  document["system"] = nlohmann::json(document["system"]);  // Protobuf's maps have no order.
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  std::string out = "{\n";
  bool first = true;
  for (const auto& [name, value] : document.items()) {
    if (!std::exchange(first, false)) out += ",\n";
    out += "  " + ordered_json(name).dump() + ": ";
    if (!value.is_array() || value.empty()) {
      std::string text = value.dump(2, ' ', false, kReplace);
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) {
        text.replace(at, 1, "\n  ");
      }
      out += text;
      continue;
    }
    out += "[\n";
    for (std::size_t i = 0; i < value.size(); ++i) {
      out +=
          "    " + value[i].dump(-1, ' ', false, kReplace) + (i + 1 < value.size() ? ",\n" : "\n");
    }
    out += "  ]";
  }
  return out + "\n}\n";
}

}  // namespace

const char* VerdictText(Verdict verdict) {
  return verdict == Verdict::kConfirmed ? "confirmed"
         : verdict == Verdict::kRefuted ? "refuted"
                                        : "not tried";
}

void Notes::Put(std::string_view id, Verdict verdict, std::string seen) {
  MLXCOMM_INVARIANT(FindAssumption(id) != nullptr);
  Judgement& judgement = judgements_[std::string(id)];
  if (verdict < judgement.verdict) return;
  if (verdict == judgement.verdict && !judgement.seen.empty()) {
    judgement.seen += "; " + seen;
  } else {
    judgement = {verdict, std::move(seen)};
  }
  if (judgement.seen.size() > kTextBytesMax) judgement.seen.resize(kTextBytesMax);
}

void Notes::Confirm(std::string_view id, std::string seen) {
  Put(id, Verdict::kConfirmed, std::move(seen));
}
void Notes::Refute(std::string_view id, std::string seen) {
  Put(id, Verdict::kRefuted, std::move(seen));
}
void Notes::LeaveOut(std::string_view id, std::string why) {
  Put(id, Verdict::kNotTried, std::move(why));
}
void Notes::Judge(bool holds, std::string_view id, std::string seen) {
  Put(id, holds ? Verdict::kConfirmed : Verdict::kRefuted, std::move(seen));
}
void Notes::Measure(std::string name, double value, std::string unit) {
  v1::FirstLightFigure& figure = *document.add_measurements();
  figure.set_name(std::move(name));
  figure.set_value(value);
  figure.set_unit(std::move(unit));
}
void Notes::Happened(std::uint64_t at_us, std::string source, std::string kind, std::string rail,
                     std::string text) {
  if (document.events_size() == kEventsMax) {
    document.set_events_left_out(document.events_left_out() + 1);
    return;
  }
  v1::FirstLightEvent& event = *document.add_events();
  event.set_at_us(static_cast<double>(at_us));
  event.set_source(std::move(source));
  event.set_kind(std::move(kind));
  event.set_rail(std::move(rail));
  event.set_text(std::move(text));
}

Judgement Notes::Of(std::string_view id) const {
  const auto found = judgements_.find(id);
  if (found != judgements_.end()) return found->second;
  const Assumption& one = *FindAssumption(id);
  for (const v1::FirstLightStep& step : document.steps()) {
    if (step.name() == one.step && !step.why().empty()) return {Verdict::kNotTried, step.why()};
  }
  return {Verdict::kNotTried, "step " + std::string(one.step) + " found nothing about it"};
}

std::size_t Notes::Count(Verdict verdict) const {
  const auto all = Assumptions();
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& one) { return Of(one.id).verdict == verdict; }));
}

std::string Document(const Notes& notes, const Pseudonyms& pseudonyms,
                     const std::vector<std::string>& keys) {
  const Writer text(pseudonyms, keys);
  v1::FirstLightDocument document = notes.document;
  std::stable_sort(document.mutable_events()->begin(), document.mutable_events()->end(),
                   [](const auto& a, const auto& b) { return a.at_us() < b.at_us(); });
  RemovePaths(*document.mutable_rdma());
  FilterTexts(document, text);
  document.set_format("mlxcomm-firstlight");
  document.set_version(kVersion);
  for (const char* const line : kAbout) document.add_about(line);
  document.set_names_replaced(pseudonyms.replaces());
  v1::FirstLightSummary& summary = *document.mutable_summary();
  summary.set_confirmed(static_cast<std::uint32_t>(notes.Count(Verdict::kConfirmed)));
  summary.set_refuted(static_cast<std::uint32_t>(notes.Count(Verdict::kRefuted)));
  summary.set_not_tried(static_cast<std::uint32_t>(notes.Count(Verdict::kNotTried)));
  FillAssumptions(notes, text, document);
  return Written(std::move(document));
}

std::string Summary(const Notes& notes) {
  std::string text;
  for (const Verdict verdict : {Verdict::kRefuted, Verdict::kConfirmed, Verdict::kNotTried}) {
    for (const Assumption& one : Assumptions()) {
      const Judgement judgement = notes.Of(one.id);
      if (judgement.verdict != verdict) continue;
      std::string head = VerdictText(verdict);
      head.resize(11, ' ');
      text += head + std::string(one.assumed) + "\n           " + Shown(judgement.seen) + "\n";
    }
  }
  return text + std::to_string(notes.Count(Verdict::kConfirmed)) + " confirmed, " +
         std::to_string(notes.Count(Verdict::kRefuted)) + " refuted, " +
         std::to_string(notes.Count(Verdict::kNotTried)) + " not tried\n";
}

std::string RailNamedIn(std::string_view text) {
  constexpr std::string_view kBegin = "rail ";
  const std::size_t end = text.find(" is ");
  if (!text.starts_with(kBegin) || end == std::string_view::npos) return {};
  return std::string(text.substr(kBegin.size(), end - kBegin.size()));
}

}  // namespace mlxcomm::ctl
