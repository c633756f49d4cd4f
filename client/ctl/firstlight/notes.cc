#include "client/ctl/firstlight/notes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/cluster/secrets.h"
#include "client/ctl/firstlight/assumptions.h"
#include "client/ctl/status/render_status.h"
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

void FillSteps(const Notes& notes, const Writer& text, v1::FirstLightDocument& document) {
  for (const StepNote& step : notes.steps) {
    v1::FirstLightStep& told = *document.add_steps();
    told.set_name(step.name);
    told.set_outcome(step.outcome);
    told.set_why(text(step.why));
    told.set_began_ms(static_cast<std::uint32_t>(step.began_ms));
    told.set_took_ms(static_cast<std::uint32_t>(step.took_ms));
  }
}

void FillRdma(const RdmaTrials& rdma, const Writer& text, v1::FirstLightRdma& told) {
  for (const RdmaLimit& limit : rdma.limits) {
    if (limit.name == "library" || limit.name == "configuration") continue;  // Paths.
    v1::FirstLightLimit& one = *told.add_limits();
    one.set_name(limit.name);
    one.set_value(text(limit.value));
    one.set_source(text(limit.source));
  }
  for (const TriedDevice& device : rdma.devices) {
    v1::FirstLightDevice& one = *told.add_devices();
    one.set_name(text(device.name));
    one.set_active(device.active);
    one.set_state(text(device.state));
    for (const std::string& gid : device.gids) one.add_gids(text(gid));
    for (const RdmaTrial& trial : device.trials) {
      v1::FirstLightTrial& tried = *one.add_trials();
      tried.set_name(trial.name);
      tried.set_verdict(trial.verdict);
      tried.set_text(text(trial.text));
    }
  }
  told.set_trouble(text(rdma.devices_trouble + rdma.trials_trouble + rdma.limits_trouble));
}

void FillInterfaces(const Notes& notes, const Writer& text, v1::FirstLightDocument& document) {
  for (const InterfaceFacts& one : notes.interfaces) {
    v1::FirstLightInterface& told = *document.add_interfaces();
    told.set_name(text(one.name));
    told.set_hardware(text(one.hardware));
    told.set_running(one.running);
    told.set_thunderbolt(one.thunderbolt);
    told.set_mtu(one.mtu);
    told.set_bridge(text(one.bridge));
    told.set_has_link_local(one.has_link_local);
  }
}

void FillEvents(const Notes& notes, const Writer& text, v1::FirstLightDocument& document) {
  std::vector<Happening> sorted = notes.happenings;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.at_us < b.at_us; });
  for (const Happening& one : sorted) {
    v1::FirstLightEvent& told = *document.add_events();
    told.set_at_us(static_cast<double>(one.at_us));
    told.set_source(one.source);
    told.set_kind(one.kind);
    told.set_rail(text(one.rail));
    told.set_text(text(one.text));
  }
  document.set_events_left_out(static_cast<std::uint32_t>(notes.happenings_left_out));
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
  measurements.push_back({std::move(name), value, std::move(unit)});
}
void Notes::Happened(Happening what) {
  if (happenings.size() == kHappeningsMax) {
    ++happenings_left_out;
  } else {
    happenings.push_back(std::move(what));
  }
}

Judgement Notes::Of(std::string_view id) const {
  const auto found = judgements_.find(id);
  if (found != judgements_.end()) return found->second;
  const Assumption& one = *FindAssumption(id);
  for (const StepNote& step : steps) {
    if (step.name == one.step && !step.why.empty()) return {Verdict::kNotTried, step.why};
  }
  return {Verdict::kNotTried, "step " + std::string(one.step) + " came to nothing about it"};
}

std::size_t Notes::Count(Verdict verdict) const {
  const auto all = Assumptions();
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& one) { return Of(one.id).verdict == verdict; }));
}

std::string Document(const Notes& notes, const Pseudonyms& pseudonyms,
                     const std::vector<std::string>& keys) {
  const Writer text(pseudonyms, keys);
  v1::FirstLightDocument document;
  document.set_format("mlxcomm-firstlight");
  document.set_version(kVersion);
  for (const char* const line : kAbout) document.add_about(line);
  document.set_names_replaced(pseudonyms.replaces());
  for (const auto& [name, value] : notes.system) (*document.mutable_system())[name] = text(value);
  document.set_took_ms(static_cast<std::uint32_t>(notes.took_ms));
  v1::FirstLightSummary& summary = *document.mutable_summary();
  summary.set_confirmed(static_cast<std::uint32_t>(notes.Count(Verdict::kConfirmed)));
  summary.set_refuted(static_cast<std::uint32_t>(notes.Count(Verdict::kRefuted)));
  summary.set_not_tried(static_cast<std::uint32_t>(notes.Count(Verdict::kNotTried)));
  FillAssumptions(notes, text, document);
  FillSteps(notes, text, document);
  for (const Measurement& one : notes.measurements) {
    v1::FirstLightFigure& told = *document.add_measurements();
    told.set_name(text(one.name));
    told.set_value(one.value);
    told.set_unit(one.unit);
  }
  FillInterfaces(notes, text, document);
  for (const std::string& finding : notes.findings) document.add_findings(text(finding));
  FillRdma(notes.rdma, text, *document.mutable_rdma());
  for (const RailNote& rail : notes.rails) {
    v1::FirstLightRail& told = *document.add_rails();
    told.set_rail(text(rail.rail));
    told.set_transport(rail.transport);
    told.set_interface(text(rail.interface));
  }
  FillEvents(notes, text, document);
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
