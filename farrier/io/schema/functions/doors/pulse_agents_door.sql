-- Records the pulse of a door of agents, and with reached that it has answered an agent since its last pulse. Doors call it every two
-- seconds. Returns false if the door is not listed, because 100 doors of agents are. FR400 for a malformed name or release.
-- A caller can list doors that do not exist, and nothing else: only heartbeats show that doors reach agents (farrier.beat).
CREATE OR REPLACE FUNCTION farrier.pulse_agents_door(door uuid, name text, release text, reached boolean) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT keep_door('agents', door, name, release, reached)
$$;
