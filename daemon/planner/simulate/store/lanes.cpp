#include "daemon/planner/simulate/store/lanes.h"

namespace terrace::planner {

void Lanes::ask(std::uint32_t lane, const Request& request, bool urgent) {
  Lane& l = lanes_[lane];
  tickets_[request.tensor] = ++last_ticket_;
  (urgent ? l.urgent : l.normal).all.push_back({request, last_ticket_});
}

bool Lanes::skip_void(Fifo* fifo) const {
  for (; fifo->head < fifo->all.size(); ++fifo->head)
    if (is_valid(fifo->all[fifo->head])) return true;
  fifo->all.clear();
  fifo->head = 0;
  return false;
}

const Lanes::Request* Lanes::front(std::uint32_t lane) {
  Lane& l = lanes_[lane];
  for (Fifo* fifo : {&l.urgent, &l.normal})
    if (skip_void(fifo)) return &fifo->all[fifo->head].request;
  return nullptr;
}

const Lanes::Request& Lanes::start(std::uint32_t lane, double now_us) {
  Lane& l = lanes_[lane];
  l.active = *front(lane);
  call_off(l.active.tensor);
  l.start_us = now_us;
  l.number = ++starts_;
  return l.active;
}

void Lanes::record(std::uint32_t lane, bool in, bool aborted, double end_us, Recording* recording) const {
  const Lane& l = lanes_[lane];
  recording->transfer({l.active.tensor, l.active.tier, in, l.active.on_demand, aborted, l.active.stored,
                       l.active.queued_us, l.start_us, end_us},
                      l.number);
}

}  // namespace terrace::planner
