#include "tests/sim/hello.h"

#include <utility>

namespace mlxcomm::sim {

Hello::Hello(Schedule& schedule, Host& dialer, Port& port, Random random)
    : schedule_(schedule),
      random_(random),
      cable_(*port.cable),
      connection_(std::make_shared<Connection>(schedule, *port.cable, random_.Fork("connection"))) {
  const Port* const other = port.peer->PortOf(cable_, 1 - port.side);
  for (const Role role : {kDialer, kAcceptor}) {
    Side& side = At(role);
    side.hello = this;
    side.role = role;
    side.host = role == kDialer ? &dialer : port.peer;
    side.end = role == kDialer ? port.side : 1 - port.side;
    side.life = side.host->life();
  }
  At(kDialer).path = {port.interface, port.peer_interface};
  At(kAcceptor).path = {other->interface, other->peer_interface};
}

void Hello::Begin() {
  cable_.connections.push_back(connection_);
  for (Side& side : sides_) {
    side.host->AddConnection(connection_, side.end);
    connection_->Attach(side.end, &side);
    schedule_.After(side.host->daemon()->options().node.fabric.greeting_timeout_ns,
                    [self = shared_from_this(), role = side.role] {
                      if (!self->At(role).over) self->Fail(role);
                    });
  }
  Report(kAcceptor, &Hello::OnProof);
}

// nullptr if the host now has another daemon, or none.
Daemon* Hello::DaemonOf(Side& side) const {
  return side.host->life() == side.life ? side.host->daemon() : nullptr;
}

void Hello::Report(Role to, void (Hello::*step)()) {
  Message message;
  message.hello = [self = shared_from_this(), to, step] {
    // A message is answered a moment after it was read: other events may happen in between.
    self->schedule_.After(self->random_.Below(kAnswerNsMax), [self, to, step] {
      Side& side = self->At(to);
      Daemon* const daemon = self->DaemonOf(side);
      if (side.over || daemon == nullptr || !self->connection_->open(side.end)) return;
      if (side.host->state() == Host::State::kStopped) return self->Fail(to);
      ((*self).*step)();
      daemon->Wake();
    });
  };
  connection_->Send(At(to == kDialer ? kAcceptor : kDialer).end, std::move(message));
}

void Hello::OnProof() {
  Side& acceptor = At(kAcceptor);
  const fabric::Links& links = DaemonOf(acceptor)->links();
  verdict_ = links.Judge(At(kDialer).host->id(), acceptor.path);
  mark_ = links.MarkOf(At(kDialer).host->id(), acceptor.path);
  Report(kDialer, &Hello::OnVerdict);
}

void Hello::OnVerdict() {
  if (verdict_ != wire::VerdictCode::kAccepted) return Fail(kDialer);
  Side& dialer = At(kDialer);
  auto join = DaemonOf(dialer)->links().BeginAsDialer(At(kAcceptor).host->id(), dialer.path);
  if (!join.ok()) return Fail(kDialer);
  dialer.join = *std::move(join);
  introductions_[kDialer] = dialer.join->own;
  Report(kAcceptor, &Hello::OnDialersIntroduction);
}

void Hello::OnDialersIntroduction() {
  Side& acceptor = At(kAcceptor);
  auto join = DaemonOf(acceptor)->links().BeginAsAcceptor(
      At(kDialer).host->id(), acceptor.path, introductions_[kDialer], mark_, schedule_.now_ns());
  if (!join.ok()) return Fail(kAcceptor);
  acceptor.join = *std::move(join);
  introductions_[kAcceptor] = acceptor.join->own;
  Report(kDialer, &Hello::OnAcceptorsIntroduction);
  FinishAs(kAcceptor, introductions_[kDialer]);
}

void Hello::OnAcceptorsIntroduction() {
  FinishAs(kDialer, introductions_[kAcceptor]);
  EndDial(true);
}

void Hello::FinishAs(Role role, const wire::Introduction& theirs) {
  Side& side = At(role);
  Daemon* const daemon = DaemonOf(side);
  side.over = true;
  connection_->Detach(side.end);
  auto rail = std::make_unique<ConnectedRail>(schedule_, *daemon, connection_, side.end, side.path,
                                              side.host->rail_options(), random_.Fork("rail"));
  const fabric::Links::Join join = *std::exchange(side.join, std::nullopt);
  (void)daemon->links().Finish(join, std::move(rail), theirs, schedule_.now_ns());
  daemon->Wake();
}

void Hello::Fail(Role role) {
  Side& side = At(role);
  if (std::exchange(side.over, true)) return;
  connection_->Close(side.end);
  if (Daemon* const daemon = DaemonOf(side); daemon != nullptr && side.join.has_value()) {
    daemon->links().Abandon(*side.join);
  }
  if (role == kDialer) EndDial(false);
}

void Hello::EndDial(bool joined) {
  if (std::exchange(dial_ended_, true)) return;
  Side& dialer = At(kDialer);
  if (DaemonOf(dialer) == nullptr) return;
  Port* const port = dialer.host->PortOf(cable_, dialer.end);
  dialer.host->OnDialEnded(*port, joined, /*refused=*/false);
}

}  // namespace mlxcomm::sim
