// Flows over links in SimGrid: when each ends, and the processor seconds of the simulation.
//
// Read:    the number of links and the B/s of each; the number of lanes, and of each its two ends, the number of its
//          links and these; the number of flows, and of each its lane, its bytes, the number of flows that must have
//          ended before and these.
// Written: the processor seconds of the flows and their run, and the end of each flow, s.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <ctime>
#include <iostream>
#include <unordered_map>

namespace sg4 = simgrid::s4u;

template <class T> static T read() {
  T value;
  std::cin >> value;
  return value;
}

template <class T> static std::vector<T> read_list() {
  std::vector<T> values(read<std::size_t>());
  for (auto& value : values)
    std::cin >> value;
  return values;
}

struct Lane {
  sg4::Host *source, *destination;
};

struct Flow {
  std::size_t lane;
  std::uint64_t bytes;
  std::size_t missing;
  std::vector<std::size_t> then;
  double end;
  sg4::CommPtr comm;
};

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  std::ios::sync_with_stdio(false);
  auto* zone = sg4::create_full_zone("fabric");
  std::vector<sg4::Link*> links;
  for (double rate : read_list<double>())
    links.push_back(zone->create_link("link" + std::to_string(links.size()), rate)->set_latency(0.0)->seal());
  std::unordered_map<int, sg4::Host*> hosts;
  auto read_host = [&]() {
    int number = read<int>();
    auto& host = hosts[number];
    return host ? host : host = zone->create_host("host" + std::to_string(number), 1e9)->seal();
  };
  std::vector<Lane> lanes(read<std::size_t>());
  for (auto& lane : lanes) {
    lane.source = read_host();
    lane.destination = read_host();
    std::vector<sg4::LinkInRoute> route;
    for (std::size_t link : read_list<std::size_t>())
      route.emplace_back(links[link]);
    zone->add_route(lane.source->get_netpoint(), lane.destination->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
  std::vector<Flow> flows(read<std::size_t>());
  for (std::size_t i = 0; i < flows.size(); i++) {
    std::cin >> flows[i].lane >> flows[i].bytes;
    auto const before = read_list<std::size_t>();
    flows[i].missing = before.size();
    for (std::size_t flow : before)
      flows[flow].then.push_back(i);
  }

  // Flows are created when they may start. As a graph of activities they are all in one list from the beginning,
  // which SimGrid 3.32 searches at each end: that took 200 times as long for a ring of 128.
  std::clock_t const started = std::clock();
  std::unordered_map<sg4::Activity const*, Flow*> running;
  auto start = [&](Flow& flow) {
    flow.comm = sg4::Comm::sendto_init(lanes[flow.lane].source, lanes[flow.lane].destination);
    flow.comm->set_payload_size(flow.bytes);
    running[flow.comm.get()] = &flow;
    flow.comm->start();
  };
  sg4::Activity::on_completion_cb([&](sg4::Activity const& activity) {
    Flow& flow = *running.extract(&activity).mapped();
    flow.end = activity.get_finish_time();
    for (std::size_t next : flow.then)
      if (--flows[next].missing == 0)
        start(flows[next]);
    flow.comm = nullptr;
  });
  for (auto& flow : flows)
    if (flow.missing == 0 && !flow.comm)
      start(flow);
  engine.run();
  std::printf("%.9g\n", static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC);
  for (auto const& flow : flows)
    std::printf("%.17g\n", flow.end);
  return 0;
}
