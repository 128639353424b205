-- What the application may do in addition to its own tables: publish. Run as the owner.
GRANT EXECUTE ON FUNCTION freight.lockstep_publish__consignments_booked TO depot_clerk;
GRANT EXECUTE ON FUNCTION freight.lockstep_publish__lines_priced TO depot_clerk;
GRANT EXECUTE ON FUNCTION freight.lockstep_publish__consignments_packed TO depot_clerk;
