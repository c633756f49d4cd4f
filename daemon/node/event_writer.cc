#include "daemon/node/event_writer.h"

#include "absl/strings/str_cat.h"

namespace mlxcomm::node {

using record::EventSeverity;

void EventWriter::OnNodeUp(const link::NodeIdentity& node) {
  sink_.Report("node_up", EventSeverity::kNote, absl::StrCat("node ", node.name),
               absl::StrCat("is up, mlxcommd ", node.software_version));
}

void EventWriter::OnNodeLost(const std::string& name, const std::string& why) {
  sink_.Report("node_lost", EventSeverity::kError, absl::StrCat("node ", name),
               absl::StrCat("is lost: ", why));
}

void EventWriter::OnNotice(const link::FabricNotice& notice) {
  using Kind = link::FabricNotice::Kind;
  const std::string link = absl::StrCat("link to ", notice.node);
  const std::string rail =
      notice.path.empty() ? "the route through other nodes" : absl::StrCat("rail ", notice.path);
  switch (notice.kind) {
    case Kind::kRailUp:
      return sink_.Report("rail_up", EventSeverity::kNote, link, absl::StrCat(rail, " is up"));
    case Kind::kRailDown:
      return sink_.Report("rail_down", EventSeverity::kWarning, link,
                          absl::StrCat(rail, " is down: ", notice.why));
    case Kind::kLinkWaits:
      return sink_.Report(
          "link_waits", EventSeverity::kWarning, link,
          absl::StrCat("no rail is left: ", notice.why, "; waiting for one to come back"));
    case Kind::kDialFails:
      return sink_.Report("dial_fails", EventSeverity::kWarning, notice.node, notice.why);
    case Kind::kStrangerRefused:
      return sink_.Report("stranger_refused", EventSeverity::kWarning, notice.node,
                          absl::StrCat("refused at the peer port: ", notice.why));
    case Kind::kNodeRefused:
      return sink_.Report("node_refused", EventSeverity::kWarning, notice.node,
                          absl::StrCat("refused: ", notice.why));
  }
}

void EventWriter::OnSameId(const std::string& name, const std::string& address) {
  sink_.Report("same_id", EventSeverity::kError, absl::StrCat("node ", name),
               absl::StrCat("another machine, at ", address, ", has the same node id"));
}

}  // namespace mlxcomm::node
